package answer

import "strings"

// API is an API all of whose good answers have a form that is known.
type API uint8

// OtherAPI is any API that is not known, or whose answers have no form that all engines share.
const OtherAPI API = 0

// apis are the ends of the paths of known APIs. Those that begin with a mark are whole paths: what other servers have
// at such ends is something else, as Triton, whose answers have the names of a model's tensors.
var apis = [...]string{
	"/chat/completions",
	"/completions",
	"/responses",
	"/messages",
	":generateContent",
	":streamGenerateContent",
	"/api/chat",
	"/api/generate",
	"=/generate",
	"=/generate_stream",
	"=/completion",
	"=/infill",
}

// APIOf returns the API of the calls with a path, which may have a query.
func APIOf(path string) API {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	for i, end := range apis {
		if whole, marked := strings.CutPrefix(end, "="); path == whole || !marked && strings.HasSuffix(path, end) {
			return API(i + 1)
		}
	}
	return OtherAPI
}
