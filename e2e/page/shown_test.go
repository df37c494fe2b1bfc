package page

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/internal/live"
	livepage "github.com/warmgate/warmgate/internal/live/page"
)

// gatewayShown is what the page has of a gateway, as text. Rows are those of tables.
type gatewayShown struct {
	Name, About, Down          string
	Problems                   []string
	Clusters                   []clusterShown
	Queue, Regions, Reasons    [][]string
	Marks, Waiting             []int // on each lane
	Figures, Health, Addresses []string
}

type clusterShown struct {
	Name, Policy string
	Lanes        [][]string
}

// readPage returns what the page shows of gateways.
const readPage = `(() => {
  const texts = (root, selector) => [...root.querySelectorAll(selector)].map((e) => e.textContent.trim());
  const rows = (root, selector) => [...root.querySelectorAll(selector)].map((row) =>
    [...row.children].map((cell) => cell.textContent.trim()));
  return [...document.querySelectorAll(".gateway")].map((g) => ({
    Name: g.querySelector("h2 span").textContent, About: g.querySelector("h2 .quiet").textContent,
    Down: g.querySelector(".down").textContent, Problems: texts(g, ".problems li"),
    Clusters: [...g.querySelectorAll(".cluster")].map((c) => ({
      Name: c.querySelector("h3 span").textContent, Policy: c.querySelector(".policy").textContent,
      Lanes: rows(c, "tr.lane"),
    })),
    Queue: rows(g, ".queue tbody tr"), Regions: rows(g, ".regions tbody tr"), Reasons: rows(g, ".reasons tbody tr"),
    Marks: [...g.querySelectorAll(".track")].map((t) => t.querySelectorAll(".mark:not(.gone)").length),
    Waiting: [...g.querySelectorAll(".track")].map((t) => t.querySelectorAll(".mark.waiting:not(.gone)").length),
    Figures: texts(g, ".cluster .figures dd"), Health: texts(g, ".health"), Addresses: texts(g, ".addr"),
  }));
})()`

// number writes a number as readers in the United States do, with as many digits behind the point as there are, up to
// some.
func number(v float64, digits int) string {
	scale := math.Pow10(digits)
	whole, part, hasPart := strings.Cut(strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if hasPart {
		whole += "." + part
	}
	return whole
}

// optional writes a number that may be not known.
func optional(v *float64, scale float64, unit string) string {
	if v == nil {
		return "–"
	}
	return number(*v*scale, 0) + unit
}

// wanted returns what the page is to show of a gateway.
func wanted(g live.Gateway) gatewayShown {
	want := gatewayShown{
		Name: g.Name, About: strings.TrimPrefix(g.Region+", version "+g.Version, ", "), Problems: []string{},
		Queue: [][]string{}, Regions: [][]string{}, Reasons: [][]string{},
	}
	for _, r := range g.Regions {
		want.Regions = append(want.Regions, []string{
			r.Name, map[bool]string{false: "not available", true: "available"}[r.Available],
			fmt.Sprintf("%d ms", r.RTTMS), "→ " + number(r.ForwardedS, 1), "← " + number(r.ServedS, 1),
		})
	}
	for _, r := range g.Reasons {
		want.Reasons = append(want.Reasons, []string{
			r.Policy, r.Reason, number(r.PerS, 1), number(float64(r.Total), 0),
		})
	}
	for _, c := range g.Clusters {
		cluster := clusterShown{Name: c.Name, Policy: c.Policy}
		want.Figures = append(want.Figures, number(c.PerS, 1), number(c.RefusedS, 1),
			number(c.TTFT.P50, 0)+" ms / "+number(c.TTFT.P90, 0)+" ms",
			optional(c.Expected, 100, "%")+" / "+optional(c.Reported, 100, "%"))
		for _, class := range c.Classes {
			want.Queue = append(want.Queue,
				[]string{class.Name, "", number(float64(class.Waiting), 0), number(class.RefusedS, 1)})
		}
		for _, e := range c.Endpoints {
			health := strings.TrimPrefix(e.Health, "healthy")
			inFlight := number(float64(e.Requests), 0)
			if e.Cap > 0 {
				inFlight += fmt.Sprintf(" / %d", e.Cap)
			}
			cluster.Lanes = append(cluster.Lanes, []string{
				e.Addr + health, "", inFlight, optional(e.Running, 1, "") + " + " + optional(e.Waiting, 1, ""),
				optional(e.KVCache, 100, "%"),
			})
			want.Health, want.Addresses = append(want.Health, health), append(want.Addresses, e.Addr)
			want.Marks = append(want.Marks, int(*e.Running+*e.Waiting))
			want.Waiting = append(want.Waiting, int(*e.Waiting))
		}
		want.Clusters = append(want.Clusters, cluster)
	}
	return want
}

// shows compares the page with a frame.
func shows(t *testing.T, got []gatewayShown, frame live.Frame) {
	t.Helper()
	if len(got) != len(frame.Gateways) {
		t.Fatalf("%d gateways are shown", len(got))
	}
	for i, g := range frame.Gateways {
		if want := wanted(g); !reflect.DeepEqual(got[i], want) {
			t.Errorf("at %d it shows\n%+v\nwant\n%+v", frame.AtMS, got[i], want)
		}
	}
}

// at waits for the page to show the frame of a time.
func at(t *testing.T, b browser, frame live.Frame) {
	t.Helper()
	b.until(t, fmt.Sprintf(`document.body.dataset.at === "%d"`, frame.AtMS))
}

func TestNumbers(t *testing.T) {
	frames := story(90)
	s, url := serve(t, livepage.Facts{Title: "A title"})
	show(t, s, frames[:70]...)
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	for _, f := range frames[69:] {
		show(t, s, f)
		at(t, b, f)
		shows(t, eval[[]gatewayShown](t, b, readPage), f)
	}
	last := frames[len(frames)-1]
	if title := eval[string](t, b, `document.title + document.querySelector("h1").textContent`); title != "A titleA title" {
		t.Errorf("the title is %q", title)
	}
	if note := eval[string](t, b, `document.getElementById("note").textContent`); note != last.Note {
		t.Errorf("the note is %q", note)
	}
	legends := eval[[]string](t, b, `[...document.querySelectorAll("figure li")].map((e) => e.textContent)`)
	for i, g := range last.Gateways {
		c := g.Clusters[0]
		name := g.Name
		if c.Policy != name {
			name += " (" + c.Policy + ")"
		}
		want := []string{
			name + " p50 " + number(c.TTFT.P50, 0) + " ms", name + " p90 " + number(c.TTFT.P90, 0) + " ms",
		}
		if got := legends[2*i : 2*i+2]; !reflect.DeepEqual(got, want) {
			t.Errorf("the legend says %q, want %q", got, want)
		}
	}
}

// The policies of the three gateways change with the acts, and each change is a mark on the time axis of each plot.
func TestChanges(t *testing.T) {
	frames := story(90)
	s, url := serve(t, livepage.Facts{})
	show(t, s, frames...)
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	at(t, b, frames[len(frames)-1])
	// Behind the time that each begins with.
	got := eval[[]string](t, b, `[...document.querySelectorAll(".changes li")].map((e) => e.textContent.split("  ")[1])`)
	want := []string{
		frames[60].Note, "round_robin: round_robin", "least_request: least_request",
		frames[30].Note, "round_robin: ring_hash", "least_request: ring_hash", "Warmgate: prefix_cache",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("changes are %q", got)
	}
	marked := eval[[]int](t, b, `[...document.querySelectorAll("figure:not([hidden])")].map((figure) => {
	  const canvas = figure.querySelector("canvas");
	  const probe = figure.querySelector(".plot").appendChild(document.createElement("i"));
	  probe.className = "axis-mark";
	  const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
	  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
	  let columns = 0;
	  for (let x = 0; x < width; x++) {
	    let same = 0;
	    for (let y = 0; y < height; y++) {
	      const at = 4 * (y * width + x);
	      // Edges of dashes are blended.
	      same += data[at + 3] > 100 && Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 12;
	    }
	    columns += same > height / 8;
	  }
	  return columns;
	})`)
	for i, n := range marked {
		if n < 2 || n > 4 { // of two times; a line between two columns of pixels fills both
			t.Errorf("plot %d has %d columns of marks", i, n)
		}
	}
	if len(marked) != 4 {
		t.Errorf("%d plots", len(marked))
	}
}

func TestDecision(t *testing.T) {
	frames := story(60)
	s, url := serve(t, livepage.Facts{})
	show(t, s, frames[:59]...)
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	at(t, b, frames[58])
	show(t, s, frames[59])
	at(t, b, frames[59])
	d := frames[59].Gateways[2].Decisions[0]
	b.do(t, chromedp.Click(".choices button"))
	detail := func() string { return eval[string](t, b, `document.querySelector(".detail").innerText`) }
	got := detail()
	margin := d.Candidates[1].Cost - d.Candidates[0].Cost
	for _, want := range []string{
		d.ID, d.Endpoint + " won by " + number(margin, 3) + ": the next, " + d.Candidates[1].Addr +
			", would have cost " + number(d.Candidates[1].Cost, 3), "llama", "interactive", "1,204 / 900 / 171",
		"Candidates that cost more, not shown: 2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("of the decision it says %q, without %q", got, want)
		}
	}
	costs := eval[[][]string](t, b, `[...document.querySelectorAll(".costs tbody tr")].map((row) =>
	  [...row.children].map((cell) => cell.textContent))`)
	for i, c := range d.Candidates {
		name := c.Addr
		if i == 0 {
			name += " (chosen)"
		}
		want := []string{
			name, number(c.Base, 3), number(c.Load, 3), number(c.Over, 3), number(c.Credit, 3), number(c.Cost, 3),
			number(100*c.Matched, 0) + "%", number(float64(c.Requests), 0),
		}
		if !reflect.DeepEqual(costs[i], want) {
			t.Errorf("candidate %d is %q, want %q", i, costs[i], want)
		}
	}
	// What becomes known later is shown where it is looked at.
	later := frames[59]
	later.AtMS += 1000
	later.Gateways = []live.Gateway{frames[59].Gateways[2]}
	d.Ended, d.TookMS = true, 4321
	d.Candidates = slices.Clone(d.Candidates)
	d.Candidates[1].Cost = d.Candidates[0].Cost
	later.Gateways[0].Decisions = append(later.Gateways[0].Decisions[:0:0], d)
	show(t, s, later)
	at(t, b, later)
	if got := detail(); !strings.Contains(got, "4,321 ms") || !strings.Contains(got, "would have cost the same") {
		t.Errorf("then it says %q", got)
	}
}

// The lanes of a large fleet are bars, whose lengths are shares of the longest.
func TestManyEndpoints(t *testing.T) {
	frame := story(1)[0]
	frame.Gateways = frame.Gateways[:1]
	c := &frame.Gateways[0].Clusters[0]
	proto := c.Endpoints[0]
	c.Endpoints = nil
	for i := range 256 {
		e := proto
		e.Addr = fmt.Sprintf("10.0.%d.%d:8000", i/64, i)
		e.Running, e.Waiting, e.Requests = pointer(float64(i%16)), pointer(float64(i%4)), int64(i%16+i%4)
		c.Endpoints = append(c.Endpoints, e)
	}
	s, url := serve(t, livepage.Facts{})
	show(t, s, frame)
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	at(t, b, frame)
	got := eval[[][2]float64](t, b, `[...document.querySelectorAll("tr.lane")].map((lane) => {
	  const way = lane.querySelector(".track").clientWidth;
	  return ["runs", "waits"].map((name) => lane.querySelector("." + name).getBoundingClientRect().width / way);
	})`)
	if marks := eval[int](t, b, `document.querySelectorAll(".mark").length`); marks > 0 || len(got) != 256 {
		t.Fatalf("%d marks, %d lanes", marks, len(got))
	}
	longest := 0.0
	for _, e := range c.Endpoints {
		longest = max(longest, *e.Running+*e.Waiting)
	}
	for i, e := range c.Endpoints {
		want := [2]float64{*e.Running / longest, *e.Waiting / longest}
		if math.Abs(got[i][0]-want[0]) > 0.01 || math.Abs(got[i][1]-want[1]) > 0.01 {
			t.Errorf("lane %d has bars of %v, want %v", i, got[i], want)
		}
	}
}

// Endpoints that a cluster has twice are shown twice, and no more often as time goes on.
func TestSameNames(t *testing.T) {
	frames := story(3)
	s, url := serve(t, livepage.Facts{})
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	for _, f := range frames {
		c := &f.Gateways[0].Clusters[0]
		c.Endpoints[1].Addr = c.Endpoints[0].Addr
		show(t, s, f)
		at(t, b, f)
		shows(t, eval[[]gatewayShown](t, b, readPage), f)
	}
}
