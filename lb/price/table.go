package price

import "strings"

// Any ends a pattern: it stands for whatever the name of a model goes on with.
const Any = "*"

// Table has the prices of models by their names. The zero value has none.
type Table struct {
	models   []named // in any order
	patterns []named // by what they begin with, the longest first
}

// named are the rates of models with a name, or with names that begin with it.
type named struct {
	Name string
	Rates
}

// IsPattern reports whether a name is valid, and stands for more than one.
func IsPattern(name string) (is, valid bool) {
	i := strings.Index(name, Any)
	return i >= 0, name != "" && (i < 0 || i == len(name)-len(Any))
}

// Add adds the prices of a model, or of all whose names begin with what stands in front of Any. It returns false, and
// adds nothing, if the table has them already, or the name has Any elsewhere.
func (t *Table) Add(name string, r Rates) bool {
	pattern, valid := IsPattern(name)
	list := &t.models
	if pattern {
		list, name = &t.patterns, strings.TrimSuffix(name, Any)
	}
	if !valid || find(*list, name) != nil {
		return false
	}
	at := len(*list)
	*list = append(*list, named{name, r})
	for all := *list; pattern && at > 0 && len(all[at-1].Name) < len(name); at-- {
		all[at-1], all[at] = all[at], all[at-1]
	}
	return true
}

func find(list []named, name string) *Rates {
	for i := range list {
		if list[i].Name == name {
			return &list[i].Rates
		}
	}
	return nil
}

// Lookup returns the prices of a model: those under its name, or else under the longest pattern that it matches, nil if
// there are none. A model whose name is not known, "", matches the pattern that all match.
func (t *Table) Lookup(model string) *Rates {
	if r := find(t.models, model); r != nil {
		return r
	}
	for i := range t.patterns {
		if strings.HasPrefix(model, t.patterns[i].Name) {
			return &t.patterns[i].Rates
		}
	}
	return nil
}

// Len returns how many names and patterns the table has.
func (t *Table) Len() int { return len(t.models) + len(t.patterns) }

// IsUniform reports whether all models have the same prices, whatever their names are.
func (t *Table) IsUniform() bool {
	return len(t.models) == 0 && len(t.patterns) == 1 && t.patterns[0].Name == ""
}

// Names returns the names of the table that are no patterns.
func (t *Table) Names() []string {
	names := make([]string, len(t.models))
	for i := range t.models {
		names[i] = t.models[i].Name
	}
	return names
}

// Free returns the name of a model, or the pattern, whose prompts cost nothing, "" if there is none.
func (t *Table) Free() string {
	for i := range t.models {
		if t.models[i].Input == 0 {
			return t.models[i].Name
		}
	}
	for i := range t.patterns {
		if t.patterns[i].Input == 0 {
			return t.patterns[i].Name + Any
		}
	}
	return ""
}
