package prompt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// listedNames returns the ids of a list and their aliases behind them.
func listedNames(page []byte) []string {
	ids, aliases := ListedModels(page)
	return append(ids, aliases...)
}

func TestListedModels(t *testing.T) {
	for _, c := range []struct {
		name, page string
		want       []string
	}{
		{
			"vLLM, with an adapter", `{"object":"list","data":[{"id":"llama","object":"model","created":1,"owned_by":"vllm",` +
				`"root":"/models/llama","parent":null,"max_model_len":4096,"permission":[{"id":"modelperm-1","group":null}]},` +
				`{"id":"sql","object":"model","root":"/adapters/sql","parent":"llama","permission":[{"id":"modelperm-2"}]}]}`,
			[]string{"llama", "sql", "llama:sql"},
		},
		{
			"SGLang", `{"object":"list","data":[{"id":"qwen","root":"qwen","parent":null,"max_model_len":8192}]}`,
			[]string{"qwen"},
		},
		{
			"Ollama", `{"object":"list","data":[{"id":"llama3:latest"},{"id":"qwen:7b"}]}`,
			[]string{"llama3:latest", "qwen:7b", "llama3"},
		},
		{
			"llama.cpp", `{"models":[{"name":"a","model":"a"}],"object":"list","data":[{"id":"a.gguf","meta":{"n_ctx":1}}]}`,
			[]string{"a.gguf"},
		},
		{"white space", " {\n\"data\" : [ { \"id\" : \"a\" } , {\"id\":\"b\"} ] }\r\n", []string{"a", "b"}},
		{"escapes", `{"d\u0061ta":[{"i\u0064":"\u0061\/b"}]}`, []string{"a/b"}},
		{"the id comes late", `{"data":[{"permission":[{"id":"p"}],"x":{"id":"y"},"id":"a"}]}`, []string{"a"}},
		{"nothing", ``, nil},
		{"text", `Not Found`, nil},
		{"HTML", `<html>{"data":[{"id":"a"}]}</html>`, nil},
		{"another object", `{"error":{"message":"no"}}`, nil},
		{"no models", `{"object":"list","data":[]}`, nil},
		{"no list", `{"data":{"id":"a"}}`, nil},
		{"null", `{"data":null}`, nil},
		{"a list alone", `[{"id":"a"}]`, nil},
		{"names alone", `{"data":["a"]}`, nil},
		{"one without an id", `{"data":[{"id":"a"},{"name":"b"}]}`, nil},
		{"an empty id", `{"data":[{"id":""}]}`, nil},
		{"two lists", `{"data":[{"id":"a"}],"data":[{"id":"b"}]}`, nil},
		{"more behind it", `{"data":[{"id":"a"}]} {}`, nil},
		{"brackets that do not match", `{"data":[{"id":"a"}}]`, nil},
		{"a long name", `{"data":[{"id":"` + strings.Repeat("a", 2000) + `"}]}`, nil},
	} {
		if got := listedNames([]byte(c.page)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A list that is cut off anywhere is none: the models behind that are not known.
func TestCutListOfModels(t *testing.T) {
	page := `{"object":"list","data":[{"id":"a","permission":[{"id":"p"}]},{"id":"b","parent":"a"}],"x":1}`
	if n := len(listedNames([]byte(page))); n != 3 {
		t.Fatalf("%d names", n)
	}
	for n := range page {
		if got := listedNames([]byte(page[:n])); got != nil {
			t.Errorf("%s: %q", page[:n], got)
		}
	}
}

func TestLongListOfModels(t *testing.T) {
	list := func(n int) []byte {
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprintf(`{"id":"m%d"}`, i))
		}
		return []byte(`{"data":[` + strings.Join(ids, ",") + `]}`)
	}
	if n := len(listedNames(list(maxListed))); n != maxListed {
		t.Errorf("%d names of %d", n, maxListed)
	}
	if n := len(listedNames(list(maxListed + 1))); n != 0 {
		t.Errorf("%d names of a list that is too long", n)
	}
}

func FuzzListedModels(f *testing.F) {
	f.Add(`{"data":[{"id":"a","parent":"b"},{"id":"c:latest"}]}`)
	f.Add(`{"data":[{"id":"a"}}]`)
	f.Add(`{"data":[{"id":":latest"}]}`)
	f.Add(`{"data":[`)
	f.Fuzz(func(t *testing.T, page string) {
		names := listedNames([]byte(page))
		if len(names) > maxListed {
			t.Errorf("%d names", len(names))
		}
		for _, name := range names {
			if name == "" {
				t.Error("a model without a name")
			}
		}
		whole := strings.TrimRight(page, " \t\r\n")
		if names != nil && listedNames([]byte(whole[:len(whole)-1])) != nil {
			t.Errorf("%q is a list, and still is without its end", page)
		}
	})
}
