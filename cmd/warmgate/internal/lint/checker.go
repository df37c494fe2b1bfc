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

// checker collects what is found in a file.
type checker struct {
	Result
	file    *source.File
	gateway Gateway
	json    bool         // so a configuration by itself is checked as it is written
	root    *source.Node // of JSON
}

// add adds a problem that is not of the plugin's own.
func (c *checker) add(kind string, at int, text string) {
	c.Findings = append(c.Findings, Finding{Kind: kind, Text: text, At: at})
}

// warn adds a warning.
func (c *checker) warn(kind string, at int, text string) {
	c.Findings = append(c.Findings, Finding{Kind: kind, Warning: true, Text: text, At: at})
}
