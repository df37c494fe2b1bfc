package harness

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const sample = `
name: gw # a comment
list:
- {name: a, port: 1}
- {name: b, port: 2, deep: {x: [10, 20]}}
`

func document(t *testing.T, text string) *yaml.Node {
	t.Helper()
	doc := new(yaml.Node)
	if err := yaml.Unmarshal([]byte(text), doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ path, want, fails string }{
		{"name", "gw", ""},
		{"list[0].port", "1", ""},
		{"list[name=b].port", "2", ""},
		{"list[name=b].deep.x[1]", "20", ""},
		{"list[1].deep.x[0]", "10", ""},
		{"nothing", "", `no key "nothing"`},
		{"", "", `no key ""`},
		{"name.deeper", "", `no key "deeper"`},
		{"list[2]", "", "no element [2]"},
		{"list[-1]", "", "no element [-1]"},
		{"list[name=c]", "", "no element [name=c]"},
		{"list[port]", "", "no element [port]"},
		{"name[0]", "", "no element [0]"},
	} {
		node, err := Find(document(t, sample), c.path)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: error %v, want %s", c.path, err, c.fails)
			}
		case err != nil || node.Value != c.want:
			t.Errorf("%q: %v, %v, want %s", c.path, node, err, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		path  string
		value any
		want  string // text that the document then holds; "" when Set must fail
	}{
		{"name", "other", "name: other"},
		{"list[name=a].port", 7, "port: 7"},
		{"list[0]", map[string]int{"port": 9}, "- port: 9"},
		{"added", true, "added: true"},
		{"list[1].deep.y", []string{"z"}, "y:"},
		{"absent.deeper", 1, ""},
		{"name.deeper", 1, ""},
		{"list[5]", 1, ""},
	} {
		doc := document(t, sample)
		err := Set(doc, c.path, c.value)
		text, _ := yaml.Marshal(doc)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q: set to %v:\n%s", c.path, c.value, text)
			}
			continue
		}
		if err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%q: %v, want %s in\n%s", c.path, err, c.want, text)
		}
	}
}

func TestRemove(t *testing.T) {
	for _, c := range []struct {
		path, gone string
		ok         bool
	}{
		{"name", "name: gw", true},
		{"list[name=b].deep", "deep", true},
		{"list", "port", true},
		{"nothing", "", false},
		{"list[name=c].port", "", false},
		{"name.deeper", "", false},
	} {
		doc := document(t, sample)
		err := Remove(doc, c.path)
		text, _ := yaml.Marshal(doc)
		if (err == nil) != c.ok || c.ok && strings.Contains(string(text), c.gone) {
			t.Errorf("%q: %v:\n%s", c.path, err, text)
		}
	}
}

func TestInsert(t *testing.T) {
	for _, c := range []struct {
		name   string
		offset int
		want   string
	}{{"", 0, "c a b"}, {"a", 0, "c a b"}, {"a", 1, "a c b"}, {"b", 0, "a c b"}, {"b", 1, "a b c"}} {
		doc := document(t, sample)
		if err := Insert(doc, "list", c.name, c.offset, "[{name: c}]"); err != nil {
			t.Fatal(err)
		}
		var got struct{ List []struct{ Name string } }
		if err := doc.Decode(&got); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range got.List {
			names = append(names, e.Name)
		}
		if text := strings.Join(names, " "); text != c.want {
			t.Errorf("%d behind %q: %s, want %s", c.offset, c.name, text, c.want)
		}
	}
	doc := document(t, sample)
	for _, bad := range [][3]string{{"nothing", "", "[]"}, {"list", "c", "[]"}, {"list", "a", "["}} {
		if Insert(doc, bad[0], bad[1], 0, bad[2]) == nil {
			t.Errorf("%q was inserted", bad)
		}
	}
}
