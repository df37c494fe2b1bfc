// Package expfmt compares package metrics with Prometheus's own parser: its results on valid texts, and its cost. It is
// a module of its own, so that the parser and all that it needs are no dependencies of Warmgate.
package expfmt

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/warmgate/warmgate/metrics"
)

// parse reads a text with Prometheus's parser.
func parse(t testing.TB, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// total adds up the finite values of a family's series, and reports whether there is one.
func total(f *dto.MetricFamily) (sum float64, ok bool) {
	for _, m := range f.GetMetric() {
		var v float64
		switch {
		case m.Gauge != nil:
			v = m.Gauge.GetValue()
		case m.Counter != nil:
			v = m.Counter.GetValue()
		case m.Untyped != nil:
			v = m.Untyped.GetValue()
		default:
			return 0, false
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sum, ok = sum+v, true
		}
	}
	return sum, ok
}

// check compares every gauge and counter of a text by its name.
func check(t *testing.T, text []byte) {
	t.Helper()
	families := parse(t, text)
	if len(families) == 0 {
		t.Fatal("a text without a family")
	}
	for name, f := range families {
		want, ok := total(f)
		if f.GetType() == dto.MetricType_HISTOGRAM || f.GetType() == dto.MetricType_SUMMARY {
			continue
		}
		p, err := metrics.New(metrics.TGI, name)
		if err != nil {
			t.Fatal(err)
		}
		var l metrics.Snapshot
		p.Parse(text, &l)
		got, found := l.Value(metrics.Target(0))
		if strings.HasSuffix(name, "usage_perc") { // a share: the mean of its series
			want /= float64(len(f.GetMetric()))
		}
		if found != ok || math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Fatalf("%s: got %v %v, want %v %v, in\n%s", name, got, found, want, ok, text)
		}
	}
}

func samples(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("../../../metrics/testdata/*.prom")
	if err != nil || len(names) == 0 {
		t.Fatal("no samples", err)
	}
	texts := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(name)] = text
	}
	return texts
}

func TestSamples(t *testing.T) {
	for name, text := range samples(t) {
		t.Run(name, func(t *testing.T) { check(t, text) })
	}
}

// Unusual but valid texts of exporters.
func TestRandomTexts(t *testing.T) {
	for seed := range uint64(500) {
		check(t, random(rand.New(rand.NewPCG(seed, 1))))
	}
}

func random(r *rand.Rand) []byte {
	var b bytes.Buffer
	blank := func() string { return []string{"", " ", "\t", "  "}[r.IntN(4)] }
	for i := range 1 + r.IntN(8) {
		name := []string{"vllm:x", "_:a", "Z9", "vllm:num_requests_swapped", "tgi_a_total", "a"}[r.IntN(6)] +
			strings.Repeat("_", i)
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "# HELP %s %s\n", name, []string{"", "text", `{a="b"} 3`, `\\ \n`}[r.IntN(4)])
		}
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "# TYPE %s %s\n", name, []string{"gauge", "counter", "untyped"}[r.IntN(3)])
		}
		for series := range 1 + r.IntN(4) {
			b.WriteString(blank() + name)
			if series > 0 || r.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s{%sn=%s\"%d\"", blank(), blank(), blank(), series)
				for _, label := range []string{"engine", "model_name", "tp_rank", "priority"}[:r.IntN(5)] {
					value := []string{"", "0", "a b", `}{`, `\"`, `\\`, `\n`, "größe", `,a="`}[r.IntN(8)]
					fmt.Fprintf(&b, ",%s%s%s=\"%s\"", blank(), label, blank(), value)
				}
				fmt.Fprintf(&b, "%s}", []string{"", ",", " "}[r.IntN(3)])
			}
			b.WriteString(" " + blank() + number(r))
			if r.IntN(3) == 0 {
				b.WriteString(" 1395066363000")
			}
			b.WriteString("\n" + []string{"", "\n", "# a comment\n", "#\n"}[r.IntN(4)])
		}
	}
	return b.Bytes()
}

func number(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return []string{"NaN", "+Inf", "-Inf", "0", "-0", "1e-300", "+7", ".5", "5.", "1E3"}[r.IntN(10)]
	case 1:
		return fmt.Sprint(r.NormFloat64() * 1e6)
	case 2:
		return fmt.Sprintf("%.*f", r.IntN(16), r.Float64()*math.Pow10(r.IntN(12)))
	case 3:
		return fmt.Sprintf("%e", r.NormFloat64())
	default:
		return fmt.Sprint(r.IntN(1 << 20))
	}
}

// BenchmarkWarmgate and BenchmarkExpfmt read the same samples.
func BenchmarkWarmgate(b *testing.B) {
	p, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		b.Fatal(err)
	}
	var l metrics.Snapshot
	each(b, func(text []byte) { p.Parse(text, &l) })
}

func BenchmarkExpfmt(b *testing.B) {
	each(b, func(text []byte) { parse(b, text) })
}

func each(b *testing.B, run func([]byte)) {
	for name, text := range samples(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				run(text)
			}
		})
	}
}
