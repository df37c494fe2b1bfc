package lint

import (
	"strings"

	"github.com/warmgate/warmgate/plugin/config"
)

// Kind is a kind of finding.
type Kind struct {
	Name, Meaning string
	Warning       bool // it is never a problem
}

// Kinds are all kinds of findings.
var Kinds = []Kind{
	{"syntax", "the file, or the configuration in it, is not YAML or JSON", false},
	{"unknown-key", "a key that the plugin, or the resource, does not have", false},
	{"missing", "a key that has to be there", false},
	{"duplicate", "a key or a name that is written twice", false},
	{"value", "a value of the wrong type, out of bounds, or none of those that are accepted", false},
	{"conflict", "keys that do not fit together", false},
	{"match", "a rule that is for no request, or for others than it seems to be", false},
	{"secret", "a secret from the documents, which everybody can read", false},
	{"binary", "a configuration that reaches the plugin in another form than JSON", false},
	{"no-effect", "a key without effect", true},
	{"taken-as", "a value with another meaning than it seems to have", true},
	{"seconds", "a number of milliseconds that was probably meant as seconds", true},
	{"cap-without-queue", "requests are refused at once when every endpoint is full", true},
	{"placeholder", "an image from the documents, which is in no registry", true},
	{"wrong-artifact", "the artifact of another gateway", true},
	{"fail-closed", "the gateway refuses requests when it cannot load the plugin", true},
	{"late-body", "each request waits for body_timeout, and is decided without its body", true},
	{"place", "a place in the chain of plugins where the choice has no effect", true},
	{"nothing-checked", "a file, or a folder, without a configuration of the plugin", true},
}

// kinds of what the plugin says, by words that are in it. The first that fits is taken.
var kindsByWords = []struct{ words, kind string }{
	{"not valid JSON", "syntax"},
	{"empty, want at least", "missing"},
	{"unknown key", "unknown-key"},
	{"more problems than are shown", "unknown-key"}, // only unknown keys exceed that limit in practice
	{"is no key of this plugin", "no-effect"},
	{"missing", "missing"},
	{"written twice", "duplicate"},
	{" twice", "duplicate"},
	{"is a placeholder", "secret"},
	{"; in seconds it is", "seconds"},
	{"taken as", "taken-as"},
	{"has no effect", "no-effect"},
	{"is ignored beside", "match"},
	{"is never reached", "match"},
	{"matches nothing", "match"},
	{"before it is for", "match"},
	{`has "*"`, "match"},
	{"which is the name of none", "match"},
	{"want one host without a port", "match"},
	{"compared letter by letter", "match"},
	{"services in Higress end in", "match"},
	{", want a path", "value"},
	{"not an address", "value"},
	{" beside ", "conflict"},
	{"got both", "conflict"},
	{" without ", "conflict"},
	{" with lb_type ", "conflict"},
	{"elsewhere", "conflict"},
	{"got ", "value"},
	{", want a name", "value"},
}

// kindOf returns the kind of what the plugin says.
func kindOf(f *config.Finding) string {
	for _, k := range kindsByWords {
		if strings.Contains(f.Text, k.words) && (k.kind != "seconds" || f.Warning) {
			return k.kind
		}
	}
	if f.Warning {
		return "no-effect"
	}
	return "conflict"
}
