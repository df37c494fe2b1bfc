package core

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// Sustained overload with the queue of the shipped file, and answers in one piece.

// shippedFile returns the configuration of the shipped file for overload.
func shippedFile(t *testing.T) (c map[string]any) {
	t.Helper()
	file, err := os.ReadFile("../../envoy-config/warmgate-overload.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(file), "value: |\n")
	if err := json.Unmarshal([]byte(text), &c); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return c
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// shippedQueue returns the member of the queue in it.
func shippedQueue(t *testing.T) string {
	return `"queue":` + marshal(t, shippedFile(t)["lb_config"].(map[string]any)["queue"])
}

// shippedConfig returns all of it for servers of so many slots each: what differs is where endpoints and metrics come
// from, the limit of the servers, and what change does to the queue.
func shippedConfig(t *testing.T, slots int, change func(queue map[string]any)) string {
	t.Helper()
	c := shippedFile(t)
	settings := c["lb_config"].(map[string]any)
	delete(settings, "envoy")
	settings["push"], settings["max_inflight"] = "outstanding", slots
	settings["health"] = map[string]any{"slow_start": 0}
	change(settings["queue"].(map[string]any))
	return marshal(t, c)
}

// startShipped starts two workers with that configuration.
func startShipped(t *testing.T, servers, slots int, change func(queue map[string]any)) *fakeDriver {
	t.Helper()
	d := startFake(t, 2, servers, shippedConfig(t, slots, change))
	d.advance(time.Second)
	return d
}

// ordered has classes go in that order.
func ordered(order string) func(map[string]any) {
	return func(queue map[string]any) { queue["order"] = order }
}

// visit is a request of a played load, which a server works on for a while.
type visit struct {
	class, tenant string
	at, work      time.Duration // since the load began
	client        *fakeStream
	began         time.Duration // when a server got it
	ended         bool
	prompt        string // "hello" if it is empty
	deadline      string // in milliseconds, "" for none
}

func (v *visit) wait() time.Duration { return v.began - v.at }

// refused reports whether the gateway has answered the request.
func (v *visit) refused() bool { return v.client.Ended && v.client.Upstream() < 0 }

// visits draws requests of a class and tenant, so many a second for a span, from a time on.
func visits(rng *rand.Rand, class, tenant string, perSecond float64, from, span time.Duration) (list []*visit) {
	for at := from; ; {
		at += time.Duration(rng.ExpFloat64() / perSecond * float64(time.Second))
		if at > from+span {
			return list
		}
		work := time.Duration((0.5 + rng.Float64()) * float64(time.Second))
		list = append(list, &visit{class: class, tenant: tenant, at: at, work: work})
	}
}

// play sends the requests at their times, and has servers end them.
func (d *fakeDriver) play(lists ...[]*visit) {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b *visit) int { return int(a.at - b.at) })
	const step = 5 * time.Millisecond
	var open []*visit
	for now := time.Duration(0); len(all) > 0 || len(open) > 0; now += step {
		for ; len(all) > 0 && all[0].at <= now; all = all[1:] {
			v := all[0]
			prompt := cmp.Or(v.prompt, "hello")
			v.client = d.client(d.rand.IntN(len(d.workers)), streamtest.Request{
				Headers: [][2]string{
					{"x-warmgate-class", v.class}, {"x-warmgate-tenant", v.tenant}, {"x-deadline-ms", v.deadline},
				},
				Frames: []string{`{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`},
			})
			open = append(open, v)
		}
		for _, v := range open {
			switch {
			case v.began == 0 && v.client.Upstream() >= 0:
				v.began = now
			case v.began > 0 && now >= v.began+v.work:
				v.client.Finish()
				v.ended = true
			}
		}
		open = slices.DeleteFunc(open, func(v *visit) bool { return v.ended || v.client.Ended })
		d.advance(step)
	}
}

// wantServed fails the test if a visit was refused, or more than one in a hundred waited for longer.
func wantServed(t *testing.T, of string, list []*visit, most time.Duration) {
	t.Helper()
	var waits []time.Duration
	for _, v := range list {
		if v.refused() {
			t.Errorf("%s: a request of %v was refused: %+v", of, v.at, v.client.Result())
		}
		waits = append(waits, v.wait())
	}
	slices.Sort(waits)
	if p99 := waits[len(waits)*99/100]; p99 > most {
		t.Errorf("%s: 99 %% of %d requests waited for up to %v", of, len(waits), p99)
	}
}

// Twice as much of the batch class as the servers can do, for three times the aging, and some of the interactive class:
// of that none is refused, and 99 % wait for two answers at most.
func TestInteractiveRequestsBesideSustainedBatch(t *testing.T) {
	const servers, slots, span = 2, 4, 40 * time.Second
	for _, order := range []string{"weighted", "strict"} {
		d := startShipped(t, servers, slots, ordered(order))
		rng := rand.New(rand.NewPCG(3, 1))
		interactive := visits(rng, "interactive", "", 0.12*servers*slots, 2*time.Second, span)
		batch := visits(rng, "batch", "", 2*servers*slots, 0, span)
		d.play(interactive, batch)
		wantServed(t, order, interactive, 3*time.Second)
		served := 0
		for _, v := range batch {
			if !v.refused() {
				served++
			}
		}
		if most := len(batch); served < most*4/10 {
			t.Errorf("%s: only %d of %d of the batch class were served", order, served, most)
		}
	}
}

// A backlog of the batch class has waited for longer than the aging when requests of both classes come, together more
// than the servers can do: those of the interactive class are served, all within their deadlines if they have some.
func TestInteractiveRequestsBehindABacklog(t *testing.T) {
	const servers, slots, backlog, since, span = 4, 8, 530, 11 * time.Second, 15 * time.Second
	for _, of := range []struct{ order, deadline string }{{"weighted", ""}, {"weighted", "4500"}, {"strict", "4500"}} {
		d := startShipped(t, servers, slots, func(queue map[string]any) {
			queue["order"], queue["deadline_header"] = of.order, "x-deadline-ms"
		})
		rng := rand.New(rand.NewPCG(5, 1))
		first := visits(rng, "batch", "", 10*backlog, 0, time.Second/10)
		interactive := visits(rng, "interactive", "", 0.3*servers*slots, since, span)
		for _, v := range interactive {
			v.deadline = of.deadline
		}
		d.play(first, interactive, visits(rng, "batch", "", 0.95*servers*slots, since, span))
		wantServed(t, of.order+of.deadline, interactive, 3*time.Second)
		old := 0
		for _, v := range first {
			if !v.refused() && v.wait() > since {
				old++
			}
		}
		if old < 50 {
			t.Errorf("only %d of the backlog have waited for longer than their aging", old)
		}
	}
}

// A tenant sends so much that its requests grow old, or that the queue is full before. Another one with a request now
// and then in the same class is not refused, and waits for its turn.
func TestFloodOfATenant(t *testing.T) {
	const servers, slots = 2, 4
	for name, change := range map[string]func(queue map[string]any){
		"grows old": func(map[string]any) {},
		"fills the queue": func(queue map[string]any) {
			queue["max_length"] = 60
			delete(queue, "tenant_max_share")
		},
	} {
		d := startShipped(t, servers, slots, change)
		rng := rand.New(rand.NewPCG(4, 1))
		light := visits(rng, "batch", "light", 0.5, 14*time.Second, 20*time.Second)
		flood := visits(rng, "batch", "flood", 4*servers*slots, 0, 40*time.Second)
		d.play(light, flood, visits(rng, "interactive", "other", 0.3*servers*slots, 0, 40*time.Second))
		wantServed(t, name, light, 3*time.Second)
		oldest := time.Duration(0)
		for _, v := range flood {
			if !v.refused() {
				oldest = max(oldest, v.wait())
			}
		}
		if name == "grows old" && oldest < 11*time.Second {
			t.Errorf("nobody of the flood has waited for longer than %v", oldest)
		}
	}
}

// Beside more of the interactive class than servers can do, few requests of the batch class that are let in wait in
// vain, though their prompts are much longer: what is shared are tokens.
func TestLongPromptsBesideAHigherClass(t *testing.T) {
	const servers, slots, span = 2, 8, 60 * time.Second
	for _, order := range []string{"weighted", "strict"} {
		d := startShipped(t, servers, slots, ordered(order))
		rng := rand.New(rand.NewPCG(3, 1))
		interactive := visits(rng, "interactive", "", 1.3*servers*slots, 0, span)
		batch := visits(rng, "batch", "", 0.1*servers*slots, 0, span)
		for i, v := range batch {
			v.prompt = strconv.Itoa(i) + strings.Repeat(" and again", 4000)
		}
		d.play(interactive, batch)
		letIn, late := 0, 0
		for _, v := range batch {
			timedOut := strings.Contains(v.client.Result().Body, "queue_timeout")
			if v.at > 20*time.Second && (timedOut || !v.refused()) {
				letIn++
				if timedOut {
					late++
				}
			}
		}
		if letIn == 0 || float64(late) > 0.02*float64(letIn) {
			t.Errorf("%s: %d of %d let in waited in vain", order, late, letIn)
		}
	}
}

// When a higher class stops to send more than servers can do, the lower one is not refused by what it got before.
func TestBatchAfterAnOverload(t *testing.T) {
	const servers, slots, stops, span = 2, 8, 40 * time.Second, 80 * time.Second
	for _, order := range []string{"weighted", "strict"} {
		d := startShipped(t, servers, slots, ordered(order))
		rng := rand.New(rand.NewPCG(3, 1))
		batch := visits(rng, "batch", "", 0.6*servers*slots, 0, span)
		d.play(visits(rng, "interactive", "", 1.5*servers*slots, 0, stops), batch)
		refused := 0
		for _, v := range batch {
			if v.at > stops+5*time.Second && v.refused() {
				refused++
			}
		}
		if refused > 0 {
			t.Errorf("%s: %d refused", order, refused)
		}
	}
}
