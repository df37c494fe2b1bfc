package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
)

// Parse is Update of nothing.
func Parse(raw []byte, h Host) (*Set, error) {
	s, _, err := Update(raw, h, nil)
	return s, err
}

// Update parses a configuration. Its error contains every problem, one line each: its path, the value, and what is
// expected. If the set is nil, the text is not a configuration or none of its parts is valid. Otherwise the valid parts
// are in force, and each of the others in the last good form that before contains of it, or not at all.
//
// The forms that Update returns are those of the parts in force. They are for the next Update, and for another one of
// the same text, which then returns the same set.
func Update(raw []byte, h Host, before Forms) (*Set, Forms, error) {
	if len(raw) > maxBytes {
		return nil, nil, errors.New("config: " + strconv.Itoa(len(raw)) +
			" bytes, want at most " + strconv.Itoa(maxBytes))
	}
	text := string(raw)
	if strings.TrimSpace(text) == "" {
		return nil, nil, errors.New("config: empty, want at least " + smallest(h))
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, nil, errors.New("config: " + err.Error())
	}
	if root.kind != kindObject {
		return nil, nil, errors.New("config: " + noObject(root))
	}
	src := &source{parser: &parser{host: h, base: defaults(h)}, text: text}
	set, forms := src.set(root, before)
	if set != nil {
		set.warnings = src.warnings
	}
	if src.count > 0 {
		return set, forms, src.err()
	}
	return set, forms, nil
}

// smallest is the shortest configuration that is valid on the gateway.
func smallest(h Host) string {
	policy := strconv.Quote(policy.All()[0].Name)
	if h == Envoy {
		return `{"lb_policy":` + policy + `,"lb_config":{"envoy":{"admin_cluster":"..."}}}`
	}
	return `{"lb_policy":` + policy + `}`
}
