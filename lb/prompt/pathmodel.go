package prompt

import "strings"

// Some APIs name the model in the path, and not in the body: that of Gemini and Vertex AI, of Azure, of Triton and
// KServe, and of Bedrock.

// pathForm is how paths of an API name a model: behind a segment, and in front of one of several, or of a colon.
type pathForm struct {
	before string // the segment in front of the name
	colon  bool   // it ends at the last colon of the path, behind which the call is; there may be a slash in it
	behind string // else the segments that may follow it, each between spaces
}

const (
	openAICalls  = " chat completions embeddings responses audio images rerank moderations "
	tritonCalls  = " generate generate_stream infer versions "
	bedrockCalls = " invoke invoke-with-response-stream converse converse-stream "
)

// maxPathTries is how many segments of a path that look like the one in front of a name are looked behind.
const maxPathTries = 8

var pathForms = [...]pathForm{
	{"models", true, tritonCalls}, // of Gemini; of Triton
	{"tunedModels", true, ""},
	{"endpoints", true, ""},
	{"deployments", false, openAICalls}, // of Azure
	{"engines", false, openAICalls},     // of OpenAI at first, and still of LiteLLM
	{"model", false, bedrockCalls},
}

// ModelInPath returns the name of the model in the path of a call that computes, "" for none. Segments that only look
// like it, such as a prefix /models/v1 of all paths, are told apart by what follows.
func ModelInPath(path string) string {
	for at, tries := 0, 0; at < len(path) && path[at] != '?' && tries < maxPathTries; at++ {
		if path[at] != '/' || at+1 == len(path) || path[at+1] < 'd' || path[at+1] > 't' {
			continue // most paths have no segment of which more is to be seen
		}
		for i := range pathForms {
			f := &pathForms[i]
			if rest, ok := strings.CutPrefix(path[at+1:], f.before); ok && strings.HasPrefix(rest, "/") {
				tries++
				if name := f.nameIn(plainPath(rest[1:])); name != "" {
					return name
				}
			}
		}
	}
	return ""
}

// nameIn returns the name at the beginning of what follows the form's segment, "" for none. It is not inlined, for the
// size of the artifacts.
//
//go:noinline
func (f *pathForm) nameIn(rest string) string {
	name, behind, more := strings.Cut(rest, "/")
	call, _, _ := strings.Cut(behind, "/")
	if more && call != "" && name != "v1" && strings.Contains(f.behind, " "+call+" ") {
		return atMost(name)
	}
	at := strings.LastIndexByte(rest, ':')
	if !f.colon || at < 0 || strings.Contains(rest[at:], "/") {
		return ""
	}
	name = rest[:at]
	if strings.Count(name, "/") > 1 || name == "count-tokens" { // of Vertex AI: the model is in the body
		return ""
	}
	return atMost(name)
}

// atMost returns a name, or "" for one that is too long for one.
func atMost(name string) string {
	if len(name) > maxModelName {
		return ""
	}
	return name
}
