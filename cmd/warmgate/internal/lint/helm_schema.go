package lint

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/deploy"
	"github.com/warmgate/warmgate/plugin/config"
)

// chart is what the chart says of its values: their schema, and their defaults.
var chart = sync.OnceValue(func() (c struct {
	schema   *jsonschema.Schema
	defaults *source.Node
},
) {
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(deploy.ValuesSchema))
	compiler := jsonschema.NewCompiler()
	defaults, unread := source.NewFile("values.yaml", deploy.Values).YAML()
	if err = errors.Join(err, unread, compiler.AddResource("chart.json", text)); err == nil {
		c.schema, err = compiler.Compile("chart.json")
	}
	if err != nil {
		panic("the chart's own values: " + err.Error())
	}
	c.defaults = defaults[0]
	return c
})

// bySchema reports what the chart's schema does not allow, as Helm does: of the values with the defaults below them. Of
// the plugin's configuration the plugin says more.
func (c *checker) bySchema(n *source.Node) {
	text, err := below(chart().defaults, n).JSON()
	if err != nil {
		return // which is said of the configuration
	}
	values, err := jsonschema.UnmarshalJSON(bytes.NewReader(text.Bytes))
	if err != nil {
		return
	}
	var invalid *jsonschema.ValidationError
	if errors.As(chart().schema.Validate(values), &invalid) {
		c.invalid(n, invalid)
	}
}

// below returns values with those of the defaults that they leave open. A null deletes a default.
func below(defaults, values *source.Node) *source.Node {
	if !defaults.Is(source.Object) || !values.Is(source.Object) {
		return values
	}
	made := &source.Node{Kind: source.Object, At: values.At}
	for i, key := range values.Keys {
		if value := values.Items[i]; !value.Is(source.Null) {
			made.Add(key, below(defaults.Get(key.Name), value))
		}
	}
	for i, key := range defaults.Keys {
		if values.Get(key.Name) == nil {
			made.Add(key, defaults.Items[i])
		}
	}
	return made
}

// invalid reports the parts of an error of the schema that are about what is written.
func (c *checker) invalid(n *source.Node, err *jsonschema.ValidationError) {
	path, node := "", n
	for _, step := range err.InstanceLocation {
		if i, number := strconv.Atoi(step); number == nil && i < len(node.Elements()) {
			path, node = path+"["+step+"]", node.Elements()[i]
		} else {
			path, node = joined(path, step), node.Get(step)
		}
	}
	_, typed := err.ErrorKind.(*kind.Type)
	if node == nil || path == "config" && !typed && len(err.Causes) == 0 || strings.HasPrefix(path, "config.") ||
		strings.HasPrefix(path, "higress.matchRules[") && slices.Contains(err.InstanceLocation, "config") {
		return
	}
	if d := chart().defaults.Find(err.InstanceLocation...); d.Is(source.String) && node.Is(source.String) &&
		d.Text == node.Text {
		return // left open, as in the chart's own file
	}
	switch what := err.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, property := range what.Properties {
			known := slices.Concat(names(chart().defaults.Find(err.InstanceLocation...)), fieldNames(matchRuleFields))
			hint := config.DidYouMean(property, known)
			if node == n && pluginKeys.MatchString(strconv.Quote(property)+":") {
				hint = "; want it below config"
			}
			c.add("unknown-key", node.KeyAt(property), joined(path, property)+": the chart has no such value"+hint)
		}
	case *kind.Required:
		for _, property := range what.Missing {
			c.add("missing", node.KeyAt(property), joined(path, property)+
				": missing, or null, which deletes the default")
		}
	case *kind.AnyOf: // of conditions: the plugin says that there is none
	case *kind.Schema, *kind.Reference, *kind.Group:
		for _, cause := range err.Causes {
			c.invalid(n, cause)
		}
	default:
		said := what.LocalizedString(message.NewPrinter(language.English))
		c.add("value", node.At, path+": "+strings.ReplaceAll(said, "'", `"`)+ofChoice(what, node))
	}
}

// ofChoice returns a hint at the choice that was meant.
func ofChoice(what jsonschema.ErrorKind, n *source.Node) string {
	enum, ok := what.(*kind.Enum)
	if !ok {
		return ""
	}
	var choices []string
	for _, choice := range enum.Want {
		if text, ok := choice.(string); ok {
			choices = append(choices, text)
		}
	}
	return config.DidYouMean(n.String(), choices)
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// names returns the keys of an object.
func names(n *source.Node) (list []string) {
	if n.Is(source.Object) {
		for _, key := range n.Keys {
			list = append(list, key.Name)
		}
	}
	return list
}
