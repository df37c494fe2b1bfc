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

// configures is in a line, and no remark, of a file that seems to configure the plugin. Clusters of Envoy have a
// lb_policy in capitals.
var configures = regexp.MustCompile(`(?m)^[^#\n]*\blb_policy"?\s*:\s*"?[a-z]`)

// What may be secret in a URL: the name and the password in front of a host, also of one that was cut, and a query.
var (
	userInfo = regexp.MustCompile(`(://)[^\s"]*(@|\.\.\.)|(")[^\s"/:@]+:[^\s"/@]+@`)
	query    = regexp.MustCompile(`\?[^\s"?=]+=[^\s"]*`)
)

// withoutSecrets blanks out what may be secret in the URLs that a message repeats.
func withoutSecrets(text string) string {
	return query.ReplaceAllString(userInfo.ReplaceAllString(text, "$1$3***$2"), "?***")
}

// File checks a file. For gateway see Gateway; resources that are for one kind of gateway alone are for that. If the
// file was asked for by its name, or seems to configure the plugin, it is to have a configuration.
func File(f *source.File, gateway Gateway, named bool) Result {
	c := &checker{file: f, gateway: gateway, named: named}
	documents, err := c.read()
	for _, n := range documents {
		c.document(n)
	}
	if syntax := (*source.SyntaxError)(nil); errors.As(err, &syntax) {
		c.broken(syntax)
	}
	if c.Configurations == 0 && len(c.Findings) == 0 && (named || !c.other && configures.Match(f.Text)) {
		c.warn("nothing-checked", 0, "no configuration of the plugin is in this file, as far as it can be told")
	}
	for i := range c.Findings {
		found := &c.Findings[i]
		found.Path, found.Text = withoutSecrets(found.Path), withoutSecrets(found.Text)
	}
	slices.SortStableFunc(c.Findings, func(a, b Finding) int { return a.At - b.At })
	return c.Result
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

// broken reports a file that cannot be read to its end. A configuration by itself the plugin reads, which says more. In
// a folder a file may only mention the plugin, and be no YAML for a reason, such as a template.
func (c *checker) broken(err *source.SyntaxError) {
	if c.json && pluginKeys.Match(c.file.Text) {
		found := len(c.Findings)
		if c.configuration(c.file.Whole(), c.host(nil)); len(c.Findings) > found {
			return
		}
	}
	if c.named || configures.Match(c.file.Text) {
		c.add("syntax", err.At, err.Text)
	} else {
		c.warn("syntax", err.At, err.Text)
	}
}

// document checks a document, or each of the resources in a list, which may leave out their kind. There are no lists in
// lists.
func (c *checker) document(n *source.Node) {
	kind := n.Get("kind").String()
	list, ok := strings.CutSuffix(kind, "List")
	if !ok {
		c.resource(n, kind)
		return
	}
	for _, item := range n.Get("items").Elements() {
		of := list
		if own := item.Get("kind"); own != nil {
			of = own.String()
		}
		c.resource(item, of)
	}
}

// resource checks what an object is, as far as it is known.
func (c *checker) resource(n *source.Node, kind string) {
	before := c.Configurations + len(c.Findings)
	defer func() {
		if c.Configurations+len(c.Findings) > before {
			c.duplicates(n)
		}
	}()
	switch {
	case !n.Is(source.Object):
	case kind == "WasmPlugin":
		c.wasmPlugin(n)
	case kind == "EnvoyExtensionPolicy":
		c.extensionPolicy(n)
	case kind == "TrafficExtension":
		c.trafficExtension(n)
	case kind == "ConfigMap":
		c.filesIn(n.Get("data"))
	case kind == "Secret":
		c.filesIn(n.Get("stringData"))
	case kind == "" && isValues(n): // also if the plugin's keys have lost their indentation
		c.values(n)
	case kind == "" && isConfiguration(n):
		c.plain(n)
	case kind == "" && n.Get("warmgate").Is(source.Object) && isValues(n.Get("warmgate")):
		c.values(n.Get("warmgate")) // of a chart that has this one
	case kind == "" && isPatch(n):
		c.patch(n)
	default:
		found := c.Configurations
		c.filters(n)
		if found == c.Configurations && c.named && c.gateway != Auto && kind == "" && !isOfEnvoy(n) {
			c.plain(n) // which whoever names the gateway says
		}
	}
}

// isOfEnvoy reports whether an object is a bootstrap of Envoy, or has resources of xDS.
func isOfEnvoy(n *source.Node) bool {
	return n.Get("resources", "static_resources", "staticResources", "dynamic_resources", "dynamicResources") != nil
}

// ofEnvoy is in the text of a configuration that says where endpoints come from.
var ofEnvoy = regexp.MustCompile(`"(envoy|admin_cluster)"\s*:`)

// host is the kind of gateway of a configuration by itself: stock Envoy if it says where its endpoints come from. It is
// nil if the file cannot be read.
func (c *checker) host(n *source.Node) config.Host {
	switch {
	case c.gateway == Envoy, c.gateway == Auto && n == nil && ofEnvoy.Match(c.file.Text):
		return config.Envoy
	case c.gateway == Higress, n == nil:
		return config.Higress
	}
	for _, part := range slices.Concat(n.Get("_rules_").Elements(), []*source.Node{n}) {
		if part.Find("lb_config", "envoy") != nil || part.Get("lb_config.envoy.admin_cluster") != nil {
			return config.Envoy
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

// filesIn checks the files in a ConfigMap or a Secret. What has no name of YAML or JSON counts if the plugin is in it.
func (c *checker) filesIn(data *source.Node) {
	if !data.Is(source.Object) {
		return
	}
	for i, key := range data.Keys {
		if !data.Items[i].Is(source.String) {
			continue
		}
		inner := c.file.Inner(data.Items[i])
		f := source.NewFile(key.Name, inner.Bytes)
		if !f.Mentioned() {
			continue
		}
		result := File(f, c.gateway, false)
		if result.Configurations == 0 && !source.IsReadable(key.Name) {
			continue
		}
		c.Configurations += result.Configurations
		c.Checked = append(c.Checked, result.Checked...)
		for _, found := range result.Findings {
			found.At = inner.At(found.At)
			c.Findings = append(c.Findings, found)
		}
	}
}
