package statname

import (
	"regexp"
	"strings"
	"testing"
)

// pairs returns labels by turns, in the order of like.
func pairs(labels map[string]string, like []string) (out []string) {
	for i := 0; i < len(like); i += 2 {
		out = append(out, like[i], labels[like[i]])
	}
	return out
}

func TestWith(t *testing.T) {
	for _, c := range []struct {
		labels      []string
		name, short string
	}{
		{nil, "n_total", "n_total"},
		{[]string{"cluster", "llm"}, "cluster=.=llm;.;n_total", "n_total;cluster=llm"},
		{
			[]string{"cluster", "outbound|8000||vllm.default.svc.cluster.local", "endpoint", "[2001:db8::1]:8000"},
			"cluster=.=outbound|8000||vllm.default.svc.cluster.local;.;endpoint=.=[2001:db8::1]:8000;.;n_total",
			"n_total;cluster=outbound|8000||vllm.default.svc.cluster.local;endpoint=[2001:db8::1]:8000",
		},
		{
			[]string{"cluster", "a;.;endpoint=.=b", "endpoint", ";\n\x7f"},
			"cluster=.=a_._endpoint_._b;.;endpoint=.=___;.;n_total",
			"n_total;cluster=a_._endpoint_._b;endpoint=___",
		},
		{[]string{"class", "模型/a b"}, "class=.=模型/a b;.;n_total", "n_total;class=模型/a b"},
	} {
		name := With("n_total", c.labels...)
		if name != c.name {
			t.Errorf("%q: got %q, want %q", c.labels, name, c.name)
		}
		for _, prefix := range []string{"", "wasmcustom."} {
			if got := Short(prefix + name); got != prefix+c.short {
				t.Errorf("short form of %q: got %q, want %q", prefix+name, got, prefix+c.short)
			}
			stat, labels := Parse(prefix + name)
			if again := With(stat, pairs(labels, c.labels)...); again != name || len(labels) != len(c.labels)/2 {
				t.Errorf("%q is read as %q %v", prefix+name, stat, labels)
			}
		}
	}
}

// A label without a value is none.
func TestWithout(t *testing.T) {
	if got := With("n_total", "class", "", "cluster", "llm", "model", ""); got != With("n_total", "cluster", "llm") {
		t.Errorf("got %q", got)
	}
	if got := With("n_total", "class", ""); got != "n_total" {
		t.Errorf("got %q", got)
	}
}

func TestShortOfOthers(t *testing.T) {
	for _, name := range []string{"", "cluster.llm.upstream_rq_total", "a;b", "x;.;", "y=.=z", ";.;=.="} {
		if got := Short(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// FuzzLabels takes labels out of names as Istio's expressions do: whatever the values are, each label is found whole,
// and the statistic is left.
func FuzzLabels(f *testing.F) {
	f.Add("llm", "10.0.0.1:8000")
	f.Add("endpoint=.=", ";.;")
	f.Add("a;", ".;.;cluster=.=b;.")
	f.Add("\n", "\xff")
	tag := func(name string) *regexp.Regexp { return regexp.MustCompile(`(` + name + `=\.=(.*?);\.;)`) }
	cluster, endpoint := tag("cluster"), tag("endpoint")
	f.Fuzz(func(t *testing.T, a, b string) {
		name := "wasmcustom." + With("n_total", "cluster", a, "endpoint", b)
		left := name
		for i, re := range []*regexp.Regexp{cluster, endpoint} {
			m := re.FindStringSubmatch(name)
			if []string{a, b}[i] == "" {
				if m != nil {
					t.Fatalf("%q: %s matches, though there is no value", name, re)
				}
				continue
			}
			if m == nil {
				t.Fatalf("%q has no match of %s", name, re)
			}
			if want := []string{a, b}[i]; len(m[2]) != len(want) {
				t.Errorf("%q: %q is written as %q", name, want, m[2])
			}
			left = strings.Replace(left, m[1], "", 1)
		}
		if left != "wasmcustom.n_total" {
			t.Errorf("%q: %q is left", name, left)
		}
	})
}
