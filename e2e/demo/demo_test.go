package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/overload"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/live/page"
	"github.com/warmgate/warmgate/internal/state"
)

// ended is an act of which the rivals and Warmgate have these results.
func ended(figures []figure, results ...result) *played {
	p := &played{act: &act{name: "Act", figures: figures, headline: 1}, results: [contenders]result(results)}
	for i, name := range [contenders]string{"round_robin", "least_request", "Warmgate"} {
		p.policies[i].Name = name
	}
	return p
}

func at(d time.Duration) result {
	return result{ttft: loadgen.Quantiles{P50: d / 4, P90: d}, latency: loadgen.Quantiles{P50: d * 2}}
}

func TestTableShowsPoliciesSideBySide(t *testing.T) {
	p := ended([]figure{ttft90, latency50}, at(8*time.Second), at(4*time.Second), at(50*time.Millisecond))
	p.results[1].failed = 3
	var out strings.Builder
	if err := p.table().Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"round_robin  least_request  Warmgate", "8.0 s          4.0 s     50 ms", "failed requests",
		"0              3         0",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestSummaryHidesNothing(t *testing.T) {
	p := ended([]figure{ttft90, inTime("batch"), ttft50}, at(8*time.Second), at(4*time.Second), at(time.Second))
	p.results[0].good = map[string]float64{"batch": 0.3}
	p.results[1].good = map[string]float64{"batch": 0.5}
	p.note = "A note."
	const want = "Act, with Warmgate: time to first token, p90 1.0 s (round_robin 8.0 s, least_request 4.0 s). " +
		"A rival is better: batch requests answered in time (least_request 50 %). A note."
	if got := p.summary(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.results[2].good = map[string]float64{"batch": 0.504}
	if got := p.summary(); strings.Contains(got, "rival") {
		t.Errorf("a rival that is not better: %q", got)
	}
}

func TestVerdictCountsEveryFailure(t *testing.T) {
	p := ended(nil, result{}, result{}, result{})
	d := &demo{played: []*played{p}}
	if err := d.verdict(); err != nil {
		t.Errorf("a clean demo ends with %v", err)
	}
	d.failed.Add(1)
	if err := d.verdict(); !errors.Is(err, errFailed) {
		t.Errorf("a failure during a switch ends with %v", err)
	}
	p.results[1].failed = 1
	if err := (&demo{played: []*played{p}}).verdict(); !errors.Is(err, errFailed) {
		t.Errorf("a failure in an act ends with %v", err)
	}
}

func TestActs(t *testing.T) {
	for _, show := range []*show{&threeActs, &aloneAndTogether} {
		for _, a := range show.acts(time.Second) {
			if a.headline > len(a.figures) {
				t.Errorf("%s: %d headlines of %d figures", a.name, a.headline, len(a.figures))
			}
			sum := 0
			for i := range a.servers {
				sum += a.servers[i].MaxNumSeqs
			}
			if sum != overload.Slots {
				t.Errorf("%s: the servers run %d requests, circuit breakers know %d", a.name, sum, overload.Slots)
			}
		}
	}
}

// TestFrame checks what is shown of what clients saw.
func TestFrame(t *testing.T) {
	now := time.Now()
	c := &column{}
	for i := range 20 {
		c.saw(loadgen.Sample{
			Status: 200, TTFT: time.Duration(i+1) * time.Millisecond, Usage: loadgen.Usage{Prompt: 100, Cached: 50},
		})
	}
	c.saw(loadgen.Sample{Status: 429})
	c.ended[0].at = now.Add(-time.Hour)
	var got live.Cluster
	c.count(&got, now)
	half := 0.5
	want := live.Cluster{PerS: 10, RefusedS: 0.5, Reported: &half, TTFT: &live.Quantiles{N: 19, P50: 11, P90: 19}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	again := live.Cluster{}
	if c.count(&again, now.Add(moment+time.Second)); again.PerS != 0 || again.TTFT.N != 19 {
		t.Errorf("a moment later: %+v", again)
	}
}

func frame() *live.Frame {
	f := &live.Frame{}
	for _, name := range []string{"round_robin", "least_request", "Warmgate"} {
		c := live.Cluster{Policy: name, TTFT: &live.Quantiles{P90: 1500}, Classes: []live.Class{{Waiting: 2}}}
		for i := range 3 {
			running, waiting := 2., float64(20*i)
			c.Endpoints = append(c.Endpoints, live.Endpoint{Running: &running, Waiting: &waiting})
		}
		f.Gateways = append(f.Gateways, live.Gateway{Clusters: []live.Cluster{c}})
	}
	return f
}

func TestScreen(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out}
	s.draw(frame(), 7*time.Second)
	s.draw(frame(), 8*time.Second)
	const want = "   7 s  first token, p90:  round_robin 1.5 s, 60 wait  least_request 1.5 s, 60 wait" +
		"  Warmgate 1.5 s, 60 wait\n"
	if out.String() != want {
		t.Errorf("without a terminal: %q, want %q", out.String(), want)
	}
	out.Reset()
	s.terminal = true
	s.draw(frame(), 7*time.Second)
	once := out.String()
	s.draw(frame(), 8*time.Second)
	for _, want := range []string{
		"   7 s    round_robin ", "server 1  ##.................... ##", "server 2  ##...................+ ",
		"queue     ..  ", "TTFT p90  1.5 s  ",
	} {
		if !strings.Contains(once, want) {
			t.Errorf("the screen lacks %q:\n%s", want, once)
		}
	}
	if n := strings.Count(once, "\n"); !strings.Contains(out.String(), "\x1b["+string(rune('0'+n))+"A") {
		t.Errorf("the second frame is not drawn over the %d lines of the first:\n%q", n, out.String())
	}
}

// TestRecord checks that the file to keep needs nothing but itself, and has all frames and the tables as shown.
func TestRecord(t *testing.T) {
	p := ended([]figure{ttft90, inTime("batch")}, at(8*time.Second), at(4*time.Second), at(time.Second))
	p.act.servers = threeActs.acts(time.Second)[0].servers
	d := &demo{show: threeActs, played: []*played{p}, frames: []live.Frame{*frame(), *frame()}}
	d.frames[1].Gateways[2].Version = "1.2.3"
	var out strings.Builder
	if err := d.record(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	loads := regexp.MustCompile(`(src|href)\s*=\s*"?[a-z]*:?//|url\(["']?[a-z]*:?//`)
	if found := loads.FindString(text); found != "" {
		t.Errorf("it loads something: %s", found)
	}
	_, part, _ := strings.Cut(text, `id="record">`)
	part, _, _ = strings.Cut(part, "</script>")
	var got struct {
		Facts  page.Facts
		Frames []live.Frame
	}
	if err := json.Unmarshal([]byte(part), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Frames, d.frames) {
		t.Errorf("the frames are %+v", got.Frames)
	}
	if table := got.Facts.Tables[0]; !reflect.DeepEqual(table.Rows, p.table().Rows) ||
		!reflect.DeepEqual(table.Head, p.table().Head) {
		t.Errorf("the table is %+v, want %+v", table, p.table())
	}
	for _, want := range []string{"1.2.3", harness.DefaultVersion, bench.Machine(), p.summary()} {
		if !strings.Contains(strings.Join(got.Facts.About, "\n"), want) {
			t.Errorf("it does not say %q: %q", want, got.Facts.About)
		}
	}
}

func TestBrowser(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"DISPLAY": ":0"}, "xdg-open"},
		{map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, "xdg-open"},
		{map[string]string{"DISPLAY": ":0", "CI": "true"}, ""},
	} {
		if got := browser("linux", func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("with %v %q opens the page, want %q", c.env, got, c.want)
		}
	}
}

func TestTellingDecision(t *testing.T) {
	decision := func(id, rule string, credit float64) state.Decision {
		return state.Decision{
			ID: id, Rule: rule, Endpoint: "b", Used: &state.Usage{},
			Candidates: []state.Candidate{{Addr: "b", Credit: credit}, {Addr: "a", Credit: 99}},
		}
	}
	f := frame()
	f.Gateways[2].Decisions = []state.Decision{
		decision("1", "cost", 0.3), decision("2", "tie", 5), decision("3", "cost", 2), decision("4", "cost", 1),
	}
	if got := telling([]live.Frame{*frame(), *f}); got == nil || got.ID != "3" {
		t.Errorf("got %+v", got)
	}
	if got := telling([]live.Frame{*frame()}); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

// late reports whether a problem is that a gateway has not answered in time: on a busy machine it may not.
func late(problem string) bool { return strings.Contains(problem, ": no answer within ") }

// TestDemo plays a short demo with real gateways: nothing fails, and what is shown is complete.
func TestDemo(t *testing.T) {
	harness.LongT(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	d := newDemo(threeActs, out)
	d.file = filepath.Join(t.TempDir(), "demo.html")
	if err := lab.Try(func() { d.run(context.Background(), 4*time.Second) }); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Act 3.", "The cheapest was chosen.", "- Overload, with Warmgate queue: ", d.file,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the screen lacks %q:\n%s", want, text)
		}
	}
	policies, classes := map[string]bool{}, 0
	for _, f := range d.frames {
		for i, g := range f.Gateways {
			c := &g.Clusters[0]
			policies[c.Policy] = true
			classes = max(classes, len(c.Classes))
			faults := slices.DeleteFunc(slices.Clone(g.Problems), late)
			if g.Name != threeActs.columns[i] || !g.Up && len(g.Problems) == 0 || len(faults) > 0 ||
				len(c.Endpoints) != serverCount {
				t.Errorf("%d: gateway %+v", f.AtMS, g)
			}
		}
	}
	if note := d.frames[len(d.frames)-1].Note; !strings.HasPrefix(note, "What users got:\n- Unequal servers, ") {
		t.Errorf("the page ends with %q", note)
	}
	if len(policies) != 8 || classes != 3 {
		t.Errorf("the frames have the policies %v and %d classes", policies, classes)
	}
}
