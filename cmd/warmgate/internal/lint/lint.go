// Package lint finds what is wrong with files that configure the plugin: configurations by themselves, and in the
// resources of gateways. What it says of a configuration is what the plugin would say, of plugin/config; what it warns
// of beside that are traps that the documents name.
package lint

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/plugin/config"
)

// Finding is a problem, or a warning.
type Finding struct {
	Kind    string // one of Kinds
	Warning bool
	Path    string // of the key, as the plugin has it in its log; "" for what is not the plugin's
	Text    string // what is wrong, and what would be right
	At      int    // in the file
}

// Result is what was found in a file.
type Result struct {
	Configurations int // of the plugin
	Findings       []Finding
}

// Gateway is the kind of gateway that a configuration is for.
type Gateway string

// Gateways. Auto goes by the resource that the configuration is in, and for one by itself by its keys.
const (
	Auto    Gateway = "auto"
	Envoy   Gateway = "envoy"
	Higress Gateway = "higress"
)

// File checks a file. For gateway see Gateway; resources that are for one kind of gateway alone are for that. If the
// file was asked for by its name, it is to have a configuration.
func File(f *source.File, gateway Gateway, named bool) Result {
	c := &checker{file: f, gateway: gateway}
	documents, err := c.read()
	for _, n := range documents {
		c.document(n)
	}
	if syntax := (*source.SyntaxError)(nil); errors.As(err, &syntax) {
		c.broken(syntax)
	}
	if named && c.Configurations == 0 && len(c.Findings) == 0 {
		c.warn("nothing-checked", 0, "no configuration of the plugin is in this file")
	}
	slices.SortStableFunc(c.Findings, func(a, b Finding) int { return a.At - b.At })
	return c.Result
}

// checker collects what is found in a file.
type checker struct {
	Result
	file    *source.File
	gateway Gateway
	json    bool         // so a configuration by itself is checked as it is written
	root    *source.Node // of JSON
}

func (c *checker) read() ([]*source.Node, error) {
	start := strings.TrimLeft(string(c.file.Text), " \t\r\n\ufeff")
	c.json = filepath.Ext(c.file.Name) == ".json" || strings.HasPrefix(start, "{") && json.Valid(c.file.Text)
	if c.json {
		var err error
		if c.root, err = c.file.JSON(); err != nil {
			return nil, err
		}
		return []*source.Node{c.root}, nil
	}
	return c.file.YAML()
}

var pluginKeys = regexp.MustCompile(`"(lb_policy|lb_config|lb_type|_rules_)"\s*:`)

// broken reports a file that cannot be read to its end. A configuration by itself the plugin reads, which says more.
func (c *checker) broken(err *source.SyntaxError) {
	if c.json && pluginKeys.Match(c.file.Text) {
		found := len(c.Findings)
		if c.configuration(c.file.Whole(), c.host(nil)); len(c.Findings) > found {
			return
		}
	}
	c.add("syntax", err.At, err.Text)
}

// add adds a problem that is not of the plugin's own.
func (c *checker) add(kind string, at int, text string) {
	c.Findings = append(c.Findings, Finding{Kind: kind, Text: text, At: at})
}

// warn adds a warning.
func (c *checker) warn(kind string, at int, text string) {
	c.Findings = append(c.Findings, Finding{Kind: kind, Warning: true, Text: text, At: at})
}

// document checks what a document is, as far as it is known.
func (c *checker) document(n *source.Node) {
	switch kind := n.Get("kind").String(); {
	case !n.Is(source.Object):
	case kind == "WasmPlugin":
		c.wasmPlugin(n)
	case kind == "EnvoyExtensionPolicy":
		c.extensionPolicy(n)
	case kind == "TrafficExtension":
		c.trafficExtension(n)
	case kind == "ConfigMap":
		c.configMap(n)
	case kind == "List" || kind == "WasmPluginList" || kind == "EnvoyFilterList":
		for _, item := range n.Get("items").Elements() {
			c.document(item)
		}
	case kind == "" && isConfiguration(n):
		c.plain(n)
	case kind == "" && isValues(n):
		c.values(n)
	case kind == "" && isPatch(n):
		c.patch(n)
	default:
		c.filters(n)
	}
}

// isConfiguration reports whether an object is a configuration of the plugin. Clusters of Envoy have a lb_policy, too.
func isConfiguration(n *source.Node) bool {
	policy := n.Get("lb_policy")
	ofCluster := policy.Is(source.String) && policy.Text != "" && strings.ToUpper(policy.Text) == policy.Text
	return policy != nil && !ofCluster || n.Get("lb_config", "lb_type", "_rules_") != nil
}

// host is the kind of gateway of a configuration by itself: stock Envoy if it says where its endpoints come from.
func (c *checker) host(n *source.Node) config.Host {
	switch {
	case c.gateway == Envoy:
		return config.Envoy
	case c.gateway == Higress:
		return config.Higress
	case n == nil:
		if regexp.MustCompile(`"(envoy|admin_cluster)"\s*:`).Match(c.file.Text) {
			return config.Envoy
		}
	case n.Find("lb_config", "envoy") != nil || n.Get("lb_config.envoy", "lb_config.envoy.admin_cluster") != nil:
		return config.Envoy
	default:
		for _, rule := range n.Get("_rules_").Elements() {
			if c.host(rule) == config.Envoy {
				return config.Envoy
			}
		}
	}
	return config.Higress
}

// plain checks a configuration by itself.
func (c *checker) plain(n *source.Node) {
	if n == c.root {
		c.configuration(c.file.Whole(), c.host(n))
		return
	}
	c.object(n, c.host(n))
}

// object checks a configuration that becomes JSON on its way to the plugin.
func (c *checker) object(n *source.Node, host config.Host) *config.Set {
	text, err := n.JSON()
	if err != nil {
		c.add("syntax", n.At, err.Error())
		return nil
	}
	return c.configuration(text, host)
}

// configuration checks a configuration as the plugin gets it.
func (c *checker) configuration(text *source.Text, host config.Host) *config.Set {
	c.Configurations++
	set, findings := config.Check(text.Bytes, host)
	for _, f := range findings {
		c.Findings = append(c.Findings, Finding{kindOf(&f), f.Warning, f.Path, f.Text, text.At(f.Offset)})
	}
	if set != nil {
		c.traps(text, set)
	}
	return set
}
