package lint

import (
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
	Checked        []Configuration // those of the configurations that are not switched off
}

// Configuration is one as the plugin gets it, in JSON.
type Configuration struct {
	Text []byte
	Host config.Host
}

// Gateway is the kind of gateway that a configuration is for.
type Gateway string

// Gateways. Auto goes by the resource that the configuration is in, and for one by itself by its keys.
const (
	Auto    Gateway = "auto"
	Envoy   Gateway = "envoy"
	Higress Gateway = "higress"
)

// maxDepth is deeper than any configuration.
const maxDepth = 16

// checker collects what is found in a file.
type checker struct {
	Result
	file    *source.File
	gateway Gateway
	named   bool         // it was asked for by its name
	other   bool         // there is a plugin with the same keys
	json    bool         // so a configuration by itself is checked as it is written
	root    *source.Node // of JSON
}

// add adds a problem that is not of the plugin's own.
func (c *checker) add(kind string, at int, text string) {
	c.Findings = append(c.Findings, Finding{Kind: kind, Text: text, At: at})
}

// duplicates reports the keys that are written twice in an object, at any depth. Of those in the plugin's own
// configuration the plugin has said it.
func (c *checker) duplicates(n *source.Node) {
	said := map[int]bool{}
	for _, f := range c.Findings {
		said[f.At] = said[f.At] || f.Kind == "duplicate"
	}
	met := map[*source.Node]bool{} // by another alias
	var walk func(n *source.Node)
	walk = func(n *source.Node) {
		if met[n] {
			return
		}
		met[n] = true
		names := map[string]bool{}
		for _, key := range n.Keys {
			if names[key.Name] && !said[key.At] {
				c.add("duplicate", key.At, key.Name+": written twice")
			}
			names[key.Name] = true
		}
		for _, item := range n.Items {
			walk(item)
		}
	}
	walk(n)
}

// octal warns of numbers that are written as octal ones, which hardly anybody means.
func (c *checker) octal(n *source.Node, depth int) {
	if n.Octal {
		c.warn("taken-as", n.At, "taken as "+n.Text+": a number that begins with 0 is octal")
	}
	for _, item := range n.Items {
		if depth < maxDepth {
			c.octal(item, depth+1)
		}
	}
}

// warn adds a warning.
func (c *checker) warn(kind string, at int, text string) {
	c.Findings = append(c.Findings, Finding{Kind: kind, Warning: true, Text: text, At: at})
}
