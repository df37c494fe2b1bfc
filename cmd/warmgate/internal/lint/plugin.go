package lint

import (
	"regexp"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file checks the plugin's configuration, and knows it when it sees one.

var pluginKeys = regexp.MustCompile(`"(lb_policy|lb_config|lb_type|_rules_)"\s*:`)

// isConfiguration reports whether an object is a configuration of the plugin. Clusters of Envoy have a lb_policy, too.
func isConfiguration(n *source.Node) bool {
	policy := n.Get("lb_policy")
	ofCluster := policy.Is(source.String) && policy.Text != "" && strings.ToUpper(policy.Text) == policy.Text
	return policy != nil && !ofCluster || n.Get("lb_config", "lb_type", "_rules_") != nil
}

// isOurs reports whether one of the names is the plugin's, or the configuration is one of its.
func isOurs(settings *source.Node, names ...*source.Node) bool {
	for _, n := range names {
		if strings.Contains(n.String(), "warmgate") {
			return true
		}
	}
	return settings.Is(source.Object) && isConfiguration(settings) ||
		settings.Is(source.String) && pluginKeys.MatchString(settings.Text)
}

// object checks a configuration that becomes JSON on its way to the plugin.
func (c *checker) object(n *source.Node, host config.Host) *config.Set {
	text, err := n.JSON()
	if err != nil {
		c.add("syntax", n.At, err.Error())
		return nil
	}
	c.octal(n, 0)
	return c.configuration(text, host)
}

// configuration checks a configuration as the plugin gets it.
func (c *checker) configuration(text *source.Text, host config.Host) *config.Set {
	c.Configurations++
	c.Checked = append(c.Checked, Configuration{text.Bytes, host})
	set, findings := config.Check(text.Bytes, host)
	for _, f := range findings {
		if strings.HasPrefix(f.Path, "x-") { // as other programs take them
			f.Text = "unknown key: the plugin has none for parts that are used again; write those into its own keys"
		}
		c.Findings = append(c.Findings, Finding{kindOf(&f), f.Warning, f.Path, f.Text, text.At(f.Offset)})
	}
	if set != nil {
		c.traps(text, set)
	}
	return set
}
