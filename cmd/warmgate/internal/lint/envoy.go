package lint

import (
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/plugin/config"
)

// The types in which Envoy takes the configuration of a plugin.
const (
	stringValue = "google.protobuf.StringValue"
	structValue = "google.protobuf.Struct"
)

// filters checks the Wasm filters at any depth: of a bootstrap, of extensions, or of patches in resources. Fields may
// have their names of proto files or of JSON.
func (c *checker) filters(n *source.Node) { c.walk(n, map[*source.Node]bool{}) }

func (c *checker) walk(n *source.Node, met map[*source.Node]bool) {
	if met[n] { // by another alias
		return
	}
	met[n] = true
	if n.Is(source.Object) {
		vm := n.Get("vm_config", "vmConfig")
		settings := n.Get("configuration")
		named := n.Get("name", "root_id", "rootId") != nil // else it is a part of one
		if settings != nil || vm.Is(source.Object) && named || n.Get("root_id", "rootId") != nil {
			c.filter(n, vm, settings)
		}
		c.patched(n)
	}
	for _, item := range n.Items {
		c.walk(item, met)
	}
}

// patched checks what a JSON patch puts in the place of the configuration of a filter, or of the text in it.
func (c *checker) patched(n *source.Node) {
	path, value := n.Get("path").String(), n.Get("value")
	field := path[strings.LastIndexByte(path, '/')+1:]
	switch text := value.Get("value"); {
	case field == "configuration" && isOurs(text):
		c.typed(n, value, text)
	case field == "value" && value.Is(source.String) && isOurs(value):
		c.configuration(c.file.Inner(value), config.Envoy)
	}
}

// filter checks one filter: an object that looks like Envoy's PluginConfig.
func (c *checker) filter(n, vm, settings *source.Node) {
	code := vm.Get("code")
	module := code.Find("local", "filename")
	if module == nil {
		module = code.Get("remote").Get("http_uri", "httpUri").Get("uri")
	}
	value := settings
	if typed := settings.Get("value"); typed != nil {
		value = typed
	}
	elsewhere := module.String() != "" && value != nil && !isOurs(value, module) // a companion, whatever its name
	if elsewhere || !isOurs(value, n.Get("root_id", "rootId"), vm.Get("vm_id", "vmId"), n.Get("name"), module) {
		return
	}
	c.image(module, config.Envoy)
	c.policy(n)
	if early := n.Get("allow_on_headers_stop_iteration", "allowOnHeadersStopIteration"); vm.Is(source.Object) &&
		!isTrue(early) {
		at := n.At
		if early != nil {
			at = early.At
		}
		c.warn("late-body", at, "allow_on_headers_stop_iteration: without it each request whose body decides waits "+
			"for body_timeout, and is decided without its body; want it to be true")
	}
	c.typed(n, settings, value)
}

// policy warns of a filter that refuses requests when the plugin cannot run.
func (c *checker) policy(n *source.Node) {
	policy := n.Get("failure_policy", "failurePolicy")
	c.value(&envoyPolicy, policy)
	if policy.String() == "FAIL_CLOSED" {
		c.warn("fail-closed", policy.At, "failure_policy: requests are answered 503 while the plugin cannot run; want "+
			"FAIL_RELOAD")
	}
}

// typed checks the configuration of a filter, by its type.
func (c *checker) typed(n, settings, value *source.Node) {
	_, name, _ := strings.Cut(settings.Get("@type").String(), "/")
	switch {
	case settings == nil:
		c.add("missing", n.At, "configuration: missing, want a "+stringValue+" with the plugin's JSON")
	case name == stringValue && value.Is(source.String):
		c.configuration(c.file.Inner(value), config.Envoy)
	case name == structValue && value.Is(source.String):
		c.add("binary", settings.KeyAt("@type"), "want "+stringValue+" as the type of a text")
		c.configuration(c.file.Inner(value), config.Envoy)
	case name == stringValue && value == settings:
		c.add("missing", settings.At, "configuration.value: missing, want the plugin's JSON as a text: below "+
			"\"value: |\"")
		c.Configurations++
	case name == stringValue:
		c.add("binary", value.At, "configuration.value: want the plugin's JSON as a text: below \"value: |\"")
		c.object(value, config.Envoy)
	case name == structValue:
		c.add("binary", settings.KeyAt("@type"), "a "+structValue+" reaches the plugin in binary form; want a "+
			stringValue+" with the plugin's JSON as a text")
		c.object(value, config.Envoy)
	default:
		c.add("binary", settings.At, `configuration: want "@type": type.googleapis.com/`+stringValue+
			", and the plugin's JSON as its value")
		if value.Is(source.Object) && isConfiguration(value) {
			c.object(value, config.Envoy)
		}
	}
}
