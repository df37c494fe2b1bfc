package metrics

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainSeries is one line of a page, as a parser without regard for speed reads it.
type plainSeries struct {
	name   string
	labels map[string]string // without their escapes
	value  float64
}

var (
	seriesLine = regexp.MustCompile(
		`^[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]*(\S+)(?:[ \t].*)?$`)
	labelPair   = regexp.MustCompile(`([a-zA-Z_]+)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"`)
	plainNumber = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
)

// readPage reads the lines of a page that are series with a finite value.
func readPage(text string) (list []plainSeries) {
	for _, line := range strings.Split(text, "\n") {
		m := seriesLine.FindStringSubmatch(strings.TrimSuffix(line, "\r"))
		if m == nil || m[2] == "" && !strings.ContainsAny(strings.TrimLeft(line, " \t"), " \t") {
			continue
		}
		value, ok := plainValue(m[3])
		if !ok {
			continue
		}
		s := plainSeries{m[1], map[string]string{}, value}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			s.labels[pair[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(pair[2])
		}
		list = append(list, s)
	}
	return list
}

func plainValue(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && plainNumber.MatchString(text)
}

// valueOf returns what a series contributes to a family, and whether it is one of the family.
func valueOf(s plainSeries, f *family) (float64, bool) {
	if s.name != f.name || f.label != "" && s.labels[f.label] != f.value {
		return 0, false
	}
	v, ok := s.value, true
	if f.valueLabel != "" {
		v, ok = plainValue(s.labels[f.valueLabel])
	}
	return v, ok && v >= 0 && v <= 1<<53
}

// fieldsOf returns the fields of an engine in a page: of the names for a field the first one in the table that the page
// has, its series added up or averaged.
func fieldsOf(engine Engine, list []plainSeries) values {
	got, rank, series := values{}, map[Field]uint8{}, values{}
	for i := range families {
		f := &families[i]
		if f.engine != engine {
			continue
		}
		for _, s := range list {
			v, ok := valueOf(s, f)
			if known, seen := rank[f.field]; !ok || seen && known < f.rank {
				continue
			}
			if f.field == KVUse {
				v = min(v, 1)
			}
			rank[f.field] = f.rank
			got[f.field] += v
			series[f.field]++
		}
	}
	for _, f := range []Field{KVUse, BlockTokens} {
		if series[f] > 0 {
			got[f] /= series[f]
		}
	}
	if _, served := got[Served]; served && len(got) == 1 {
		return values{} // that alone is of no engine
	}
	_, known := got[KVUse]
	if all, ok := got[KVBlocks]; ok && all > 0 && !known {
		if used, ok := got[KVUsedBlocks]; ok {
			got[KVUse] = min(used/all, 1)
		}
	}
	return got
}

// drawPage draws the lines of a page of one engine: series of its families and of others, comments, and lines that are
// none.
func drawPage(rt *rapid.T, engine Engine) []string {
	var names []string
	for i := range families {
		if f := &families[i]; f.engine == engine && f.field != MaxAdapters && !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	var lines []string
	for range rapid.IntRange(0, 12).Draw(rt, "lines") {
		switch rapid.IntRange(0, 9).Draw(rt, "kind") {
		case 0:
			lines = append(lines, rapid.SampledFrom([]string{
				"", "# HELP x y", "# TYPE vllm:num_requests_running gauge", "# EOF", "{", "x", "vllm: 3", "up 1",
			}).Draw(rt, "line"))
		case 1:
			lines = append(lines, drawSeries(rt, rapid.SampledFrom([]string{
				"python_info", "vllm:x_bucket", "num_requests_running", "xvllm:num_requests_running",
				names[0] + "_created", names[0][:len(names[0])-1],
			}).Draw(rt, "other name")))
		default:
			lines = append(lines, drawSeries(rt, rapid.SampledFrom(names).Draw(rt, "name")))
		}
	}
	return lines
}

// drawSeries draws a line of a family, with labels, blanks, and what may follow the value.
func drawSeries(rt *rapid.T, name string) string {
	blank := func() string { return rapid.SampledFrom([]string{"", "", " ", "\t "}).Draw(rt, "blank") }
	var labels []string
	for i := range families {
		f := &families[i]
		if f.name != name {
			continue
		}
		if f.label != "" && rapid.IntRange(0, 3).Draw(rt, "other label") > 0 {
			labels = append(labels, f.label+`="`+f.value+`"`)
		}
		if f.valueLabel != "" {
			labels = append(labels, f.valueLabel+`="`+drawNumber(rt)+`"`)
		}
	}
	for range rapid.IntRange(0, 2).Draw(rt, "more labels") {
		value := rapid.SampledFrom([]string{"m", "", "a } b", `q\"q`, `b\\`, `l\nl`, "é,=", "# x"}).Draw(rt, "value")
		labels = append(labels, rapid.SampledFrom([]string{"model_name", "engine", "z"}).Draw(rt, "label")+
			blank()+"="+blank()+`"`+value+`"`)
	}
	slices.Sort(labels)
	labels = slices.CompactFunc(labels, func(a, b string) bool { // a label is there once
		return strings.SplitN(a, "=", 2)[0] == strings.SplitN(b, "=", 2)[0]
	})
	text := blank() + name
	if len(labels) > 0 || rapid.Bool().Draw(rt, "braces") {
		text += blank() + "{" + blank() + strings.Join(labels, blank()+","+blank()) + blank() + "}" + blank()
	} else {
		text += " "
	}
	text += drawNumber(rt)
	return text + rapid.SampledFrom([]string{
		"", "", " ", " 1395066363000", ` # {trace_id="a}"} 0.5 1.5`, "\r",
	}).Draw(rt, "behind")
}

func drawNumber(rt *rapid.T) string {
	whole := rapid.IntRange(0, 4000).Draw(rt, "number")
	return rapid.SampledFrom([]string{
		strconv.Itoa(whole), fmt.Sprintf("%d.0", whole), fmt.Sprintf("%.3e", float64(whole)), fmt.Sprint(whole) + ".",
		fmt.Sprintf("%.2f", float64(whole)/4000), "NaN", "+Inf", "-Inf", "-1", "1e999", "x", "0x10", "1_0",
	}).Draw(rt, "notation")
}

// sumsEqual compares fields; series may be added up in another order.
func sumsEqual(a, b values) bool {
	return maps.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-12*max(x, y) })
}

var everyEngine = []Engine{VLLM, SGLang, TensorRTLLM, Triton, TGI, LlamaCPP, Dynamo}

// The fields of a page are those that a slow parser and the table of names give, whatever else is in the page.
func TestPagesAgainstAReference(t *testing.T) {
	for _, engine := range everyEngine {
		p := parser(t, engine)
		t.Run(engine.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := strings.Join(append(drawPage(rt, engine), ""), "\n")
				var snap Snapshot
				p.Parse([]byte(text), &snap)
				if want := fieldsOf(engine, readPage(text)); !sumsEqual(found(&snap), want) || snap.Cut {
					rt.Fatalf("%q:\ngot  %v\nwant %v", text, found(&snap), want)
				}
			})
		})
	}
}

// The order of the lines has no effect, and neither have lines that are no series of a wanted family.
func TestOrderOfLinesHasNoEffect(t *testing.T) {
	p := parser(t, AnyEngine)
	rapid.Check(t, func(rt *rapid.T) {
		lines := drawPage(rt, rapid.SampledFrom(everyEngine).Draw(rt, "engine"))
		var snap, other Snapshot
		p.Parse([]byte(strings.Join(append(lines, ""), "\n")), &snap)
		noise := rapid.SliceOfN(rapid.SampledFrom([]string{
			"", "#", "# TYPE a b", "go_goroutines 5", "vllm:", "vllm:other{a=\"b\"} 5", "}", "\x00", "\xff{",
		}), 0, 5).Draw(rt, "noise")
		shuffled := rapid.Permutation(slices.Concat(lines, noise)).Draw(rt, "order")
		p.Parse([]byte(strings.Join(append(shuffled, ""), "\n")), &other)
		if !sumsEqual(found(&snap), found(&other)) || snap.Engine != other.Engine {
			rt.Fatalf("%q: %v %v; %q: %v %v", lines, snap.Engine, found(&snap), shuffled, other.Engine, found(&other))
		}
	})
}

// A parser of all engines finds the same as one of the engine whose page it is.
func TestEngineIsRecognized(t *testing.T) {
	every := parser(t, AnyEngine)
	for _, engine := range everyEngine {
		p := parser(t, engine)
		t.Run(engine.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := []byte(strings.Join(append(drawPage(rt, engine), ""), "\n"))
				var snap, recognized Snapshot
				p.Parse(text, &snap)
				if every.Parse(text, &recognized); recognized != snap {
					rt.Fatalf("%q: recognized %v %v, of the engine %v", text, recognized.Engine, found(&recognized),
						found(&snap))
				}
			})
		})
	}
}

// A page that ends within a line has no field that a complete page would not have, and none of the family that the line
// may belong to.
func TestCutPages(t *testing.T) {
	p := parser(t, VLLM)
	rapid.Check(t, func(rt *rapid.T) {
		lines := drawPage(rt, VLLM)
		lines = append(lines, `vllm:num_requests_running{engine="0"} 3`, `vllm:num_requests_running{engine="1"} 4`)
		text := strings.Join(append(lines, ""), "\n")
		cut := rapid.IntRange(1, len(lines[len(lines)-1])-1).Draw(rt, "missing bytes")
		var snap Snapshot
		p.Parse([]byte(text[:len(text)-cut-1]), &snap)
		if running, ok := snap.Value(Running); ok || !snap.Cut {
			rt.Fatalf("%q: running %v, cut %v", text[:len(text)-cut-1], running, snap.Cut)
		}
		complete := strings.Join(append(lines[:len(lines)-2:len(lines)-2], ""), "\n")
		want := fieldsOf(VLLM, readPage(complete))
		if delete(want, Running); !sumsEqual(found(&snap), want) {
			rt.Fatalf("%q: %v, want %v", text, found(&snap), want)
		}
	})
}
