package page

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/chromedp/chromedp"

	livepage "github.com/warmgate/warmgate/internal/live/page"
)

// models are expressions over the names of the page's modules that compute what is drawn, and what they are as JSON.
var models = []struct{ name, expression, want string }{
	{"an engine's numbers", `lanes.load({ requests: 9, running: 2.4, waiting: 1 })`, `{"running":2,"waiting":1}`},
	{"no engine's numbers", `lanes.load({ requests: 9 })`, `{"running":9,"waiting":0}`},
	{"running alone", `lanes.load({ requests: 9, running: 3 })`, `{"running":3,"waiting":0}`},
	{"an empty fleet", `lanes.scale([])`, `{"length":8,"each":1}`},
	{
		"the longest lane", `lanes.scale([{ requests: 1, running: 8, waiting: 6 }, { requests: 3 }])`,
		`{"length":14,"each":1}`,
	},
	{"a near limit", `lanes.scale([{ requests: 1, cap: 20 }])`, `{"length":20,"each":1}`},
	{"a limit far away", `lanes.scale([{ requests: 1, cap: 1000 }])`, `{"length":8,"each":1}`},
	{"marks for several", `lanes.scale([{ requests: 81 }])`, `{"length":81,"each":3}`},
	{"lanes grow at once", `lanes.steady({ length: 8 }, { length: 9 })`, `{"length":9}`},
	{"lanes shrink late", `lanes.steady({ length: 9 }, { length: 5 })`, `{"length":9}`},
	{"lanes shrink", `lanes.steady({ length: 9 }, { length: 4 })`, `{"length":4}`},
	{"the oldest is at the right", `[0, 1].map((i) => lanes.place(i, { length: 10, each: 2 }))`, `[80,60]`},
	{"a limit on the lane", `lanes.limit(5, { length: 20 })`, `75`},
	{"a limit beyond it", `lanes.limit(21, { length: 20 })`, `null`},
	{"no limit", `lanes.limit(0, { length: 20 })`, `null`},
	{"requests come, wait, run and leave", `(() => {
	  const lane = lanes.newLane();
	  return [[1, 0, 0], [1, 2, 0], [2, 1, 0], [1, 1, 0], [2, 0, 2], [0, 0, 9]].map(([running, waiting, ended]) => {
	    const left = lanes.step(lane, { requests: 0, running, waiting }, 1, ended);
	    return left.map((m) => m.id).join() + "|" + lane.marks.map((m) => m.id + (m.waits ? "w" : "")).join();
	  });
	})()`, `["|1","|1,2w,3w","|1,2,3w","1|2,3w","2,3|4,5","4,5|"]`},
	{"marks for several, rounded up", `(() => {
	  const lane = lanes.newLane();
	  lanes.step(lane, { requests: 0, running: 4, waiting: 1 }, 3, 0);
	  return lane.marks.map((m) => m.waits);
	})()`, `[false,false,true]`},
	{"ends by lane", `[...lanes.endedBy([{ cluster: "a", endpoint: "x", ended: true }, { cluster: "a", endpoint: "x" },
	  { cluster: "a", ended: true }, { cluster: "a", endpoint: "x", ended: true }]).values()]`, `[2]`},

	{"fifteen minutes", `(() => {
	  const history = series.newHistory();
	  for (let s = 0; s < 1000; s++) {
	    series.add(history, { at_ms: 1000 * s });
	  }
	  return [history.points.length, history.points[0].at];
	})()`, `[901,99000]`},
	{"a clock that goes back", `(() => {
	  const history = series.newHistory();
	  [1, 2, 1].forEach((at_ms) => series.add(history, { at_ms }));
	  return history.points.map((p) => p.at);
	})()`, `[1]`},
	{"the busiest cluster, unless one is chosen", `(() => {
	  const clusters = [{ name: "a", policy: "p", requests_per_s: 1 }, { name: "b", policy: "p", requests_per_s: 2 }];
	  const history = series.newHistory();
	  series.add(history, { at_ms: 1, gateways: [{ name: "g", clusters }] });
	  return [new Map(), new Map([["g", "a"]])].map((chosen) => [...series.shown(history, ["g"], chosen)]);
	})()`, `[[["g","b"]],[["g","a"]]]`},
	{"lines have gaps, and switches none", `(() => {
	  const history = series.newHistory();
	  const frame = (at_ms, policy, note) => series.add(history, { at_ms, note, gateways: policy === "" ? [] :
	    [{ name: "g", clusters: [{ name: "a", policy, requests_per_s: at_ms, ttft_ms: { p50: 1, p90: 2 } }] }] });
	  frame(1000, "p");
	  frame(2000, "");
	  frame(3000, "p", "n");
	  frame(4000, "q", "n");
	  const clusters = new Map([["g", "a"]]);
	  const { times, all } = series.lines(history, clusters);
	  return [times, all[0].values.requests, all[0].values.p90, series.switches(history, clusters)];
	})()`, `[[1,2,3,4],[1000,null,3000,4000],[2,null,2,2],` +
		`[{"at":3,"number":1,"note":"n"},{"at":4,"number":2,"gateway":"g","policy":"q"}]]`},

	{"the newest decisions, with what is known last", `(() => {
	  const list = choices.newChoices();
	  const learn = (id, at_ms, reason) =>
	    choices.learn(list, { gateways: [{ name: "g", decisions: [{ id, at_ms, reason }] }] });
	  for (let i = 0; i < 300; i++) {
	    learn(String(i), i, "a");
	  }
	  learn("250", 250, "b");
	  const all = choices.latest(list);
	  return [all.length, all[0].decision.id, all.at(-1).decision.id, all[49].decision.reason];
	})()`, `[200,"299","100","b"]`},
	{"who has won by how much", `(() => {
	  const { margin, rival, winner } = choices.account({ endpoint: "b", candidates: [{ addr: "b", cost: 1 },
	    { addr: "full", cost: 1.1, full: true }, { addr: "c", cost: 3 }, { addr: "a", cost: 2 }] });
	  return [margin, rival, winner.addr];
	})()`, `[1,"a","b"]`},
	{"one that was not the cheapest", `choices.account({ endpoint: "b", candidates: [{ addr: "a", cost: 1 },
	  { addr: "b", cost: 3 }] }).margin`, `-2`},
	{"none was chosen", `choices.account({ candidates: [{ addr: "a", cost: 1 }] }).margin`, `null`},
	{"no rival", `choices.account({ endpoint: "a", candidates: [{ addr: "a", cost: 1 }] }).margin`, `null`},

	{
		"the reader's language", `[["de", "zh-TW", "en"], ["en-GB", "zh"], ["fr"], []].map(words.languageOf)`,
		`["zh","en","en","en"]`,
	},
	{"what is not known", `(() => {
	  const { number, percent, ms } = words.newWords("en", ["en"]);
	  return [number(undefined), percent(null), ms(undefined), number(0), percent(0), ms(0)];
	})()`, `["–","–","–","0","0%","0 ms"]`},
	{
		"names in what is said", `words.newWords("en", ["en"]).say("policyIs", { gateway: "$1 {policy}", policy: "p" })`,
		`"$1 {policy}: p"`,
	},
}

// TestModels calls those modules, which touch no page themselves.
func TestModels(t *testing.T) {
	_, url := serve(t, livepage.Facts{})
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	for _, c := range models {
		got := eval[string](t, b, fmt.Sprintf(`Promise.all(["lanes", "series", "choices", "words"].map((name) =>
		  import("/" + name + ".js"))).then(([lanes, series, choices, words]) => JSON.stringify(%s))`, c.expression))
		var have, want any
		if err := json.Unmarshal([]byte(got), &have); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
