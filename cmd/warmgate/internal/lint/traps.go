package lint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/config"
)

// part is a configuration in force, and the path in front of its keys.
type part struct {
	*config.Config
	prefix string
}

// parts returns the configurations of a set with their paths.
func parts(set *config.Set) (list []part) {
	nested := map[*config.Config]bool{}
	for _, of := range set.All() {
		prefix := ""
		if of.ID > 0 {
			prefix = "_rules_[" + strconv.Itoa(of.ID-1) + "]."
		}
		if nested[of] {
			prefix += "lb_config.endpoint."
		}
		nested[of.Clusters.Endpoint] = true
		list = append(list, part{of, prefix})
	}
	return list
}

// caps are the keys that bound what an endpoint gets.
var caps = []string{"max_inflight", "maxRequestCount", "max_inflight_tokens", "push"}

// traps warns of what the plugin accepts, and is nevertheless hardly meant.
func (c *checker) traps(text *source.Text, set *config.Set) {
	for _, p := range parts(set) {
		if name := p.Redis.ServiceFQDN; name != "" && !strings.Contains(name, ".") {
			c.at(text, p.prefix, []string{"serviceFQDN"}, "value", "services in Higress end in .dns, .static or "+
				".svc.cluster.local")
		}
		capped := p.MaxInflight > 0 || p.MaxInflightTokens > 0 || p.Push != push.Blind
		if d := policy.Describe(p.Policy); capped && p.Enabled && !p.Shadow && p.Queue.MaxWait == 0 && !d.Needs.Budget {
			c.at(text, p.prefix, caps, "cap-without-queue",
				"a cap without a queue: what no endpoint has room for is answered "+strconv.Itoa(p.Overload.Status)+
					` at once; want lb_config.queue.max_wait beside it, such as "30s"`)
		}
	}
}

// at warns at the first of some keys of lb_config that is there.
func (c *checker) at(text *source.Text, prefix string, keys []string, kind, what string) {
	for _, key := range keys {
		path := prefix + "lb_config." + key
		if place := config.PlaceOf(text.Bytes, path); place.Found {
			c.Findings = append(c.Findings, Finding{kind, true, path, what, text.At(place.Key)})
			return
		}
	}
}

// readsBodies reports whether a configuration decides by what is in the body of requests.
func readsBodies(set *config.Set) bool {
	if set == nil {
		return false
	}
	for _, p := range parts(set) {
		if p.Enabled && (p.Unit == lb.Tokens || p.Models.Cluster != "") {
			return true
		}
	}
	return false
}

// The artifacts, by which resources name the plugin.
const (
	artifactEnvoy   = "warmgate-envoy"
	artifactHigress = "warmgate-higress"
)

var placeholder = regexp.MustCompile(`(^|[/.])example\.(com|org|net)(:\d+)?/|[<>{}]|\byour[-_.]|\bREGISTRY\b`)

// image warns of the image, or file, of a module that is a placeholder or is for another gateway.
func (c *checker) image(n *source.Node, host config.Host) {
	name := n.String()
	if placeholder.MatchString(name) {
		c.warn("placeholder", n.At, fmt.Sprintf("got %q, an example; want the registry that you have pushed the "+
			"image to", name))
	}
	switch {
	case host == config.Higress && strings.Contains(name, artifactEnvoy):
		c.warn("wrong-artifact", n.At, "Higress needs "+artifactHigress+"; with this one the reason of all "+
			"requests is config_invalid")
	case host == config.Envoy && strings.Contains(name, artifactHigress):
		c.warn("wrong-artifact", n.At, "stock Envoy, Istio and Envoy Gateway need "+artifactEnvoy+
			"; they cannot load this one")
	}
}
