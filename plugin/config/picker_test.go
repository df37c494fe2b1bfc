package config

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const pickerDefault = `{"lb_policy":"prefix_cache","lb_config":{"push":"pending","queue":{"max_wait":"60s","from_zero":true}}}`

// TestPicker compares configurations of ai-endpoint-picker with what they stand for.
func TestPicker(t *testing.T) {
	for _, c := range []struct{ theirs, ours string }{
		{`{"profile":"balanced"}`, pickerDefault},
		{`{"weights":{}}`, pickerDefault},
		{`{"weights":{"queue":2,"kvCache":2,"prefixCache":3,"loraAffinity":0,"inflight":1}}`, pickerDefault},
		{
			`{"weights":{"prefixCache":6,"kvCache":1,"loraAffinity":0.5}}`,
			with(`,"prefix":{"credit":4},"metrics":{"weights":{"kv_cache":0.5,"lora":8}}`),
		},
		{`{"weights":{"inflight":2}}`, with(`,"prefix":{"credit":1},"metrics":{"weights":{"kv_cache":0.5}}`)},
		{`{"weights":{"prefixCache":1000000}}`, with(`,"prefix":{"credit":1000}`)},
		{`{"weights":{"prefixCache":0}}`, strings.Replace(pickerDefault, "prefix_cache", "endpoint_metrics", 1)},
		{
			`{"weights":{"prefixCache":0,"queue":0,"kvCache":0}}`,
			strings.Replace(pickerDefault, "prefix_cache", "global_least_request", 1),
		},
		{`{"weights":{"inflight":0}}`, pickerDefault},
		{
			`{"prefix":{"blockSizeTokens":64,"maxCacheBlocksPerEndpoint":2000}}`,
			with(`,"prefix":{"block_bytes":256,"cache_tokens":32000}`),
		},
		{`{"prefix":{"blockSizeTokens":1}}`, with(`,"prefix":{"block_bytes":64}`)},
		{`{"limits":{"maxRequestBodyBytes":100000}}`, with(`,"max_scan_bytes":100000`)},
		{`{"limits":{"maxRequestBodyBytes":104857600}}`, with(`,"max_scan_bytes":67108864`)},
	} {
		samePart(t, c.theirs, c.ours)
	}
}

// with returns the configuration that an empty one of ai-endpoint-picker stands for, with more in its lb_config.
func with(more string) string { return strings.TrimSuffix(pickerDefault, "}}") + more + "}}" }

// samePart compares two configurations, in force for all requests and as a rule.
func samePart(t *testing.T, theirs, ours string) {
	t.Helper()
	for _, form := range [][2]string{{"", ""}, {`{"_rules_":[`, `]}`}} {
		rule := form[0] != ""
		text := func(s string) string {
			if rule {
				s = strings.Replace(s, "{", `{"_match_route_":["r"],`, 1)
			}
			return form[0] + s + form[1]
		}
		a, err := Parse([]byte(text(theirs)), Higress)
		if err != nil {
			t.Fatalf("%s: %v", text(theirs), err)
		}
		b, err := Parse([]byte(text(ours)), Higress)
		if err != nil {
			t.Fatalf("%s: %v", text(ours), err)
		}
		if x, y := a.Match("r", "", ""), b.Match("r", "", ""); !reflect.DeepEqual(x, y) {
			t.Errorf("%s is\n%+v, want\n%+v", text(theirs), x, y)
		}
	}
}

// TestPickerRule is what Higress's controller writes for an InferencePool: rules with nothing but their routes.
func TestPickerRule(t *testing.T) {
	s, err := Parse([]byte(`{"_rules_":[{"_match_route_":["a","default/foo/0/0"]},{"_match_route_":["b"]}]}`), Higress)
	if err != nil || len(s.Warnings()) > 0 {
		t.Fatal(err, s.Warnings())
	}
	want, err := Parse([]byte(pickerDefault), Higress)
	if err != nil {
		t.Fatal(err)
	}
	for i, route := range []string{"a", "default/foo/0/0", "b"} {
		got := *s.Match(route, "", "")
		got.ID = want.Match("", "", "").ID
		if !reflect.DeepEqual(&got, want.Match("", "", "")) {
			t.Errorf("route %d: %+v", i, got)
		}
	}
	if c := s.Match("other", "", ""); c != nil {
		t.Errorf("another route has %+v", c)
	}
}

// TestEmptyRules: a rule without keys that stands beside keys of this plugin may be one whose lb_policy was forgotten.
func TestEmptyRules(t *testing.T) {
	const (
		empty  = `{"_match_route_":["a"]}`
		picker = `{"_match_route_":["b"],"profile":"default"}`
		own    = `{"_match_route_":["c"],"lb_policy":"global_least_request"}`
	)
	for _, c := range []struct {
		text string
		want int // warnings
	}{
		{`{"_rules_":[` + empty + `]}`, 0},
		{`{"_rules_":[` + empty + "," + picker + `]}`, 0},
		{`{"_rules_":[` + picker + "," + own + `]}`, 0},
		{`{"_rules_":[` + empty + "," + own + `]}`, 1},
		{`{"lb_policy":"prefix_cache","_rules_":[` + empty + `]}`, 1},
		{`{"profile":"default","_rules_":[` + empty + `]}`, 0},
		{`{"_rules_":[` + empty + `,{"_match_route_":["d"],"lb_config":{}}]}`, 1}, // of which the second is refused
		{`{"_rules_":[7,` + own + `]}`, 0},
	} {
		s, _, err := Update([]byte(c.text), Higress, nil)
		if s == nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		if got := s.Warnings(); len(got) != c.want || c.want > 0 && !strings.Contains(got[0], "lb_policy is missing") {
			t.Errorf("%s: %q", c.text, got)
		}
	}
}

// TestNoPicker has what is no configuration of ai-endpoint-picker: it must say how to balance.
func TestNoPicker(t *testing.T) {
	for _, c := range []struct {
		text string
		host Host
	}{
		{`{}`, Higress},
		{`{"_rules_":[]}`, Higress},
		{`{"lb_config":{}}`, Higress},
		{`{"_rules_":[{"_match_route_":["a"],"lb_config":{"shadow":true}}]}`, Higress},
		{`{"_rules_":[{"_match_route_":["a"],"weights":{},"lb_type":"endpoint"}]}`, Higress},
		{`{"_rules_":[{"_match_route_":["a"]}]}`, Envoy},
		{`{"profile":"default"}`, Envoy},
		{`{"prefix":{"credit":3}}`, Higress},
		{`{"prefix":{"blockSizeTokens":64,"table_bytes":"1MiB"}}`, Higress},
		{`{"_rules_":[{"_match_route_":["a"],"weights":{"10.0.0.1:8000":2}}]}`, Higress},
	} {
		if _, err := Parse([]byte(c.text), c.host); err == nil || !strings.Contains(err.Error(), "lb_policy: missing") {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// TestPickerWeights draws weights that ai-endpoint-picker takes: all of them are taken, and none but ratios count.
func TestPickerWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Float64Range(0, 1000)
		p := picker{
			queue: weight.Draw(t, "queue"), kvCache: weight.Draw(t, "kv"), prefix: weight.Draw(t, "prefix"),
			lora: weight.Draw(t, "lora"), inflight: rapid.Float64Range(0.25, 1000).Draw(t, "inflight"),
			blockTokens: rapid.IntRange(0, 1024).Draw(t, "block"),
			cacheBlocks: rapid.IntRange(0, 1<<20).Draw(t, "blocks"),
			maxBody:     rapid.IntRange(0, 100<<20).Draw(t, "body"),
		}
		if s, err := Parse([]byte(p.own()), Higress); err != nil || len(s.Warnings()) > 0 {
			t.Fatalf("%s: %v %v", p.own(), err, s.Warnings())
		}
		twice := p
		for _, w := range []*float64{&twice.queue, &twice.kvCache, &twice.prefix, &twice.lora, &twice.inflight} {
			*w *= 2 // exact, in binary
		}
		if twice.own() != p.own() {
			t.Fatalf("%s, and with twice the weights %s", p.own(), twice.own())
		}
	})
}
