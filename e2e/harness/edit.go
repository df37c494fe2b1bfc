package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Find returns the node at path in a YAML document. A path is a list of keys divided by dots; an element of a list is
// chosen by its index or by the value of one of its keys:
//
//	static_resources.listeners[name=main].filter_chains[0].filters[0].typed_config
//
// Keys and values may not contain dots or brackets themselves.
func Find(doc *yaml.Node, path string) (*yaml.Node, error) {
	node := content(doc)
	for _, step := range strings.Split(path, ".") {
		key, selector, indexed := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		if node = member(node, key); node == nil {
			return nil, fmt.Errorf("harness: %s: no key %q", path, key)
		}
		if !indexed {
			continue
		}
		if node = element(node, selector); node == nil {
			return nil, fmt.Errorf("harness: %s: no element [%s]", path, selector)
		}
	}
	return node, nil
}

// Set puts value at path, replacing what is there or adding the last key of the path. Value may be anything that
// the YAML encoder accepts.
func Set(doc *yaml.Node, path string, value any) error {
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		return fmt.Errorf("harness: %s: %w", path, err)
	}
	if old, err := Find(doc, path); err == nil {
		*old = node
		return nil
	}
	parent, key, err := split(doc, path)
	if err != nil {
		return err
	}
	if parent.Kind != yaml.MappingNode || strings.HasSuffix(key, "]") {
		return fmt.Errorf("harness: %s: cannot be added", path)
	}
	parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &node)
	return nil
}

// Remove deletes the key that path ends in. Deleting what is not there is an error, so that an edit cannot silently
// stop matching the shipped file.
func Remove(doc *yaml.Node, path string) error {
	parent, key, err := split(doc, path)
	if err != nil {
		return err
	}
	for i := 0; parent.Kind == yaml.MappingNode && i < len(parent.Content); i += 2 {
		if parent.Content[i].Value == key {
			parent.Content = append(parent.Content[:i], parent.Content[i+2:]...)
			return nil
		}
	}
	return fmt.Errorf("harness: %s: no key %q", path, key)
}

// ManagerPath is the shipped listener's HTTP connection manager in envoy.yaml, RoutesPath its routes.
const (
	ManagerPath = "static_resources.listeners[name=main].filter_chains[0].filters[0].typed_config"
	RoutesPath  = ManagerPath + ".route_config.virtual_hosts[name=llm].routes"
)

// Insert adds the elements of a list in YAML to the list at path: in front of the element of that name, offset places
// behind that, or in front of all if name is "".
func Insert(doc *yaml.Node, path, name string, offset int, text string) error {
	list, err := Find(doc, path)
	if err != nil {
		return err
	}
	at := 0
	if name != "" {
		if at = slices.IndexFunc(list.Content, func(e *yaml.Node) bool {
			return e == element(list, "name="+name)
		}); at < 0 {
			return fmt.Errorf("harness: %s: no element %s", path, name)
		}
	}
	var more yaml.Node
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		return fmt.Errorf("harness: %s: %w\n%s", path, err, text)
	}
	list.Content = slices.Insert(list.Content, at+offset, more.Content[0].Content...)
	return nil
}

// OfFile returns an edit of one file, for Options.Edit.
func OfFile(name string, edits ...func(doc *yaml.Node) error) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		if file != name {
			return nil
		}
		for _, edit := range edits {
			if err := edit(doc); err != nil {
				return err
			}
		}
		return nil
	}
}

// split returns the node that holds the last key of path, and that key.
func split(doc *yaml.Node, path string) (parent *yaml.Node, key string, err error) {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 {
		return content(doc), path, nil
	}
	parent, err = Find(doc, path[:dot])
	return parent, path[dot+1:], err
}

// content returns the top node inside a document.
func content(doc *yaml.Node) *yaml.Node {
	if doc.Kind == yaml.DocumentNode {
		return doc.Content[0]
	}
	return doc
}

func member(node *yaml.Node, key string) *yaml.Node {
	for i := 0; node.Kind == yaml.MappingNode && i < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

func element(node *yaml.Node, selector string) *yaml.Node {
	if node.Kind != yaml.SequenceNode {
		return nil
	}
	if key, value, named := strings.Cut(selector, "="); named {
		for _, e := range node.Content {
			if v := member(e, key); v != nil && v.Value == value {
				return e
			}
		}
		return nil
	}
	if i, err := strconv.Atoi(selector); err == nil && i >= 0 && i < len(node.Content) {
		return node.Content[i]
	}
	return nil
}
