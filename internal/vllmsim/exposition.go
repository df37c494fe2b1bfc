package vllmsim

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// familiesText lists what vLLM 0.32 exposes, in its order: type, name and help of each family
// but the _created ones, which follow from it.
//
//go:embed families.txt
var familiesText string

type family struct{ kind, name, help string }

var families = parseFamilies(familiesText)

func parseFamilies(text string) []family {
	var fs []family
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		fs = append(fs, family{parts[0], parts[1], parts[2]})
	}
	return fs
}

// sample is one series of a family: its labels as the exposition has them, without braces, and a value. For a
// histogram, le goes between labels and after.
type sample struct {
	labels, after string
	value         float64
	hist          *enginesim.Histogram
}

// page collects the samples of an exposition, by family.
type page map[string][]sample

func (p page) add(family string, samples ...sample) { p[family] = append(p[family], samples...) }

// render writes every family that has samples.
func (p page) render(created float64) []byte {
	b := make([]byte, 0, 64<<10)
	for _, f := range families {
		samples := p[f.name]
		if len(samples) == 0 {
			continue
		}
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, v := range samples {
			switch f.kind {
			case "histogram":
				b = appendHistogram(b, f.name, v)
			case "summary":
				b = appendSample(b, f.name+"_count", v.labels, float64(v.hist.Total()))
				b = appendSample(b, f.name+"_sum", v.labels, v.hist.Sum)
			default:
				b = appendSample(b, f.name, v.labels, v.value)
			}
		}
		if f.kind == "gauge" || !strings.HasPrefix(f.name, "vllm:") && !strings.HasPrefix(f.name, "http_") {
			continue
		}
		name := strings.TrimSuffix(f.name, "_total")
		if f.kind == "histogram" {
			name = f.name
		}
		b = fmt.Appendf(b, "# HELP %s_created %s\n# TYPE %s_created gauge\n", name, f.help, name)
		for _, v := range samples {
			b = appendSample(b, name+"_created", v.join(""), created)
		}
	}
	return b
}

// join is the sample's labels with one more in its place.
func (v sample) join(le string) string {
	parts := slices.DeleteFunc([]string{v.labels, le, v.after}, func(p string) bool { return p == "" })
	return strings.Join(parts, ",")
}

func appendHistogram(b []byte, name string, v sample) []byte {
	total := int64(0)
	for i, n := range v.hist.Counts[:len(v.hist.Bounds)+1] {
		total += n
		le := "+Inf"
		if i < len(v.hist.Bounds) {
			le = pyFloat(v.hist.Bounds[i])
		}
		b = appendSample(b, name+"_bucket", v.join(`le="`+le+`"`), float64(total))
	}
	b = appendSample(b, name+"_count", v.join(""), float64(total))
	return appendSample(b, name+"_sum", v.join(""), v.hist.Sum)
}

func appendSample(b []byte, name, labels string, value float64) []byte {
	b = append(b, name...)
	if labels != "" {
		b = append(b, '{')
		b = append(b, labels...)
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = append(b, pyFloat(value)...)
	return append(b, '\n')
}

// pyFloat writes a number as Python's repr does: always with a point or an exponent.
func pyFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	switch {
	case s == "+Inf" || s == "NaN":
		return s
	case !strings.ContainsAny(s, ".e"):
		return s + ".0"
	}
	return s
}
