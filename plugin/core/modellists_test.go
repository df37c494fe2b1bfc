package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

const listsConfig = `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,"models":{"cluster":"lists"},` +
	`"health":{"slow_start":0}}}`

// onOne has four endpoints list a base model, and the last one an adapter.
func onOne() map[int][]string {
	return map[int][]string{0: {"base"}, 1: {"base"}, 2: {"base"}, 3: {"base", "sql"}}
}

// adapterAnswer is how an endpoint answers that has only what it lists.
func (p *fakeProcess) adapterAnswer(kind string, at int) (status int, body string) {
	for _, name := range p.models[at] {
		if name == kind {
			return 200, ""
		}
	}
	return 404, `{"error":{"message":"The model ` + "`" + kind + "`" + ` does not exist.","code":404}}`
}

// served sends a request for the model, lets time pass until it goes on, and returns the endpoint that it is sent to.
func (d *fakeDriver) served(worker int, model string) int {
	d.t.Helper()
	c := d.client(worker, bodyOf(model, 100).Filled())
	for range 20 {
		if c.Upstream() >= 0 {
			break
		}
		d.advance(5 * time.Millisecond)
	}
	at := c.Upstream()
	if at < 0 {
		d.t.Fatal("a request is held")
	}
	status, body := d.adapterAnswer(model, at)
	c.Head(status, [2]string{"content-type", "application/json"})
	c.Data(body)
	c.Finish()
	return at
}

// withoutBody returns to which endpoints requests for the model are sent whose bodies do not end, -1 for none.
func (d *fakeDriver) withoutBody(model string) map[int]bool {
	had, open := map[int]bool{}, []*fakeStream{}
	for i := range 8 {
		r := bodyOf(model, 100)
		r.Unended = true
		c := d.client(i%len(d.workers), r.Filled())
		had[c.Upstream()] = true
		open = append(open, c)
	}
	for _, c := range open {
		c.ResetByClient()
	}
	return had
}

func (d *fakeDriver) askedTimes() (n int) {
	for _, times := range d.asked {
		n += times
	}
	return n
}

// One of four endpoints has an adapter, and says so: none of its requests is refused, the very first ones of the
// gateway's life included, and the base model's are spread over all.
func TestListsBeforeTheFirstRequest(t *testing.T) {
	for name, config := range map[string]string{
		"requests": listsConfig,
		"tokens":   strings.Replace(listsConfig, `_config":{`, `_config":{"unit":"tokens",`, 1),
		"prompts":  strings.Replace(listsConfig, "global_least_request", "prefix_cache", 1),
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 3, 4, config)
			d.models = onOne()
			for worker := range d.workers {
				if at := d.served(worker, "sql"); at != 3 {
					t.Errorf("the first request of worker %d is sent to endpoint %d", worker, at)
				}
			}
			loops := newLoops("sql", "sql", "sql", "base", "base", "base", "base", "base", "base", "base", "base",
				"base")
			send := func(kind string) streamtest.Request { return bodyOf(kind, 100) }
			had, refused := d.loopsPlay(loops, send, d.adapterAnswer, 15*time.Second)
			t.Logf("%v, %d refused", had, refused["sql"]+refused["base"])
			if refused["sql"]+refused["base"] != 0 {
				t.Errorf("%d requests for the adapter were refused, and %d for the base model", refused["sql"],
					refused["base"])
			}
			for at, n := range had["base"] {
				if at < 3 && n < 100 && name != "prompts" { // which keep the one prompt where it is
					t.Errorf("endpoint %d has %d of the base model's requests: %v", at, n, had["base"])
				}
			}
			d.drained()
		})
	}
}

// An adapter that is loaded elsewhere, or unloaded, is followed at the next reading; and an endpoint that comes with it
// is found within a second.
func TestListsThatChange(t *testing.T) {
	d := startFake(t, 1, 4, listsConfig)
	d.models = onOne()
	if at := d.served(0, "sql"); at != 3 {
		t.Fatalf("sent to endpoint %d", at)
	}
	d.models = map[int][]string{0: {"base"}, 1: {"base", "sql"}, 2: {"base"}, 3: {"base"}}
	d.advance(11 * time.Second)
	for range 5 {
		if at := d.served(0, "sql"); at != 1 {
			t.Errorf("after it was loaded elsewhere: sent to endpoint %d", at)
		}
	}
	d.SetEndpoints(make([]streamtest.Endpoint, 5))
	d.models[1], d.models[4] = []string{"base"}, []string{"base", "sql"}
	d.served(0, "base")
	d.advance(time.Second + 2*process.TickPeriod)
	for range 5 {
		if at := d.served(0, "sql"); at != 4 {
			t.Errorf("after one has come with it: sent to endpoint %d", at)
		}
	}
}

// A list that cannot be read says nothing of its endpoint, which the first answer shows; the others go on.
func TestBrokenLists(t *testing.T) {
	for name, broken := range map[string]string{
		"no list": "", "text": "Not Found", "cut off": `{"data":[{"id":"base"},{"id":"s`, "nothing in it": `{"data":[]}`,
		"too long":     `{"data":[` + strings.Repeat(`{"id":"x"},`, 600) + `{"id":"base"}]}`,
		"unauthorized": "!" + endpoints.ScrapeStatus + " 401", "unreachable": "!" + endpoints.ScrapeUnreachable,
		"encoded": "!" + endpoints.ScrapeEncoded,
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 4, listsConfig)
			d.models = onOne()
			if broken == "" {
				delete(d.models, 0)
			}
			d.listing = map[int]string{0: broken}
			had, refused := map[int]int{}, 0
			for range 40 {
				at := d.served(0, "sql")
				if had[at]++; at != 3 {
					refused++
				}
				d.advance(20 * time.Millisecond)
			}
			if had[1]+had[2] != 0 || refused > 1 {
				t.Errorf("sent to %v", had)
			}
			if log := strings.Join(d.log, "\n"); strings.Count(log, "does not list its models") != 1 {
				t.Errorf("the log has %q", log)
			}
		})
	}
}

// Lists that become known while a body comes change nothing in how that is read: as long as its parts keep coming the
// request waits for the end, and then goes where its model is.
func TestListsBecomeKnownWhileABodyComes(t *testing.T) {
	same := map[int][]string{0: {"sql"}, 1: {"sql"}, 2: {"sql"}, 3: {"sql"}}
	for name, models := range map[string]map[int][]string{"they differ": onOne(), "they are equal": same} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 4, listsConfig)
			d.models = models
			c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"`}, Unended: true})
			if at := d.served(0, "sql"); !slices.Contains(models[at], "sql") {
				t.Fatalf("the first request is sent to endpoint %d", at)
			}
			for range 3 { // in all more than body_timeout
				d.advance(100 * time.Millisecond)
				if c.Send("words ", false); c.Upstream() >= 0 {
					t.Fatalf("before its model has come it is sent to endpoint %d", c.Upstream())
				}
			}
			c.Send(`","model":"sql"}`, true)
			if at := c.Upstream(); at < 0 || !slices.Contains(models[at], "sql") {
				t.Errorf("sent to endpoint %d", at)
			}
			c.Finish()
			d.drained()
		})
	}
}

// With no list at all everything is as without: for one of nobody, and while lists are equal, no body is waited for.
func TestListsWithoutEffect(t *testing.T) {
	same := map[int][]string{0: {"base"}, 1: {"base"}, 2: {"base"}, 3: {"base"}}
	for name, c := range map[string]struct {
		models  map[int][]string
		noRoute bool
	}{"none": {}, "equal": {models: same}, "no cluster": {models: onOne(), noRoute: true}} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 2, 4, listsConfig)
			d.models, d.noRoute = c.models, c.noRoute
			for worker := range d.workers {
				first := d.client(worker, bodyOf("alias", 100).Filled())
				d.advance(300 * time.Millisecond)
				if first.Upstream() < 0 {
					t.Error("a request is held")
				}
				first.Finish()
			}
			if had := d.withoutBody("alias"); len(had) != 4 || had[-1] {
				t.Errorf("sent to %v", had)
			}
			d.drained()
		})
	}
}

// One worker reads for all, once in an interval, as long as there are requests.
func TestListsAreReadOnce(t *testing.T) {
	d := startFake(t, 3, 4, listsConfig)
	d.models = onOne()
	for range 60 {
		for worker := range d.workers {
			d.served(worker, "base")
		}
		d.advance(time.Second)
	}
	if n := d.askedTimes(); n < 6*4 || n > 8*4 {
		t.Errorf("lists were asked for %d times in 60 s", n)
	}
	d.advance(endpoints.ClusterAge + time.Minute)
	before := d.askedTimes()
	d.advance(time.Minute)
	if n := d.askedTimes() - before; n != 0 {
		t.Errorf("lists were asked for %d times after the last request", n)
	}
	if at := d.served(0, "sql"); at != 3 {
		t.Errorf("after a long pause: sent to endpoint %d", at)
	}
}

// An endpoint that does not answer holds the first requests for body_timeout at most; and whoever leaves, or panics,
// while its request is held leaves nothing behind.
func TestSilentLists(t *testing.T) {
	d := startFake(t, 2, 4, listsConfig)
	d.models, d.silent = onOne(), map[int]bool{1: true}
	stays, leaves := d.client(0, bodyOf("sql", 100).Filled()), d.client(0, bodyOf("sql", 100).Filled())
	other := d.client(1, bodyOf("sql", 100).Filled())
	if !stays.Held() || !leaves.Held() || !other.Held() {
		t.Fatal("the first requests are not held")
	}
	leaves.ResetByClient()
	d.advance(250*time.Millisecond + 2*process.TickPeriod)
	for name, c := range map[string]*fakeStream{"its own": stays, "another worker's": other} {
		if at := c.Upstream(); at != 3 && at != 1 {
			t.Errorf("%s request is sent to endpoint %d", name, at)
		}
		c.Finish()
	}
	d.advance(engines.ModelsTimeout)
	if at := d.served(0, "sql"); at != 3 && at != 1 {
		t.Errorf("sent to endpoint %d", at)
	}
	d.drained()
	for i, w := range d.workers {
		if n := w.vm.Lists.Waiting(); n != 0 {
			t.Errorf("worker %d holds %d requests", i, n)
		}
	}
}

// In shadow mode the gateway chooses: no request waits for lists.
func TestListsInShadowMode(t *testing.T) {
	d := startFake(t, 1, 4, strings.Replace(listsConfig, `_config":{`, `_config":{"shadow":true,`, 1))
	d.models, d.silent = onOne(), map[int]bool{0: true, 1: true, 2: true, 3: true}
	c := d.client(0, bodyOf("sql", 100).Filled())
	if c.Held() {
		t.Error("a request is held")
	}
	if d.askedTimes() != 4 {
		t.Errorf("lists were asked for %d times", d.askedTimes())
	}
	c.Finish()
	d.drained()
}

// A configuration without lists ends what was known by them.
func TestListsSwitchedOff(t *testing.T) {
	d := startFake(t, 1, 4, listsConfig)
	d.models = onOne()
	d.served(0, "sql")
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	d.advance(2 * time.Second)
	before := d.askedTimes()
	if had := d.withoutBody("sql"); len(had) != 4 || had[-1] {
		t.Errorf("sent to %v", had)
	}
	if d.advance(time.Minute); d.askedTimes() != before {
		t.Error("lists are still read")
	}
	if !d.configure(listsConfig) {
		t.Fatal("refused")
	}
	if at := d.served(0, "sql"); at != 3 {
		t.Errorf("switched on again: sent to endpoint %d", at)
	}
}

// Whatever call of the gateway panics while lists are read, no request is lost.
func TestFaultsOfLists(t *testing.T) {
	for fault, call := range map[string]int{"ModelsPage": 2, "View": 2, "Resume": 1} {
		d := startFake(t, 1, 4, listsConfig)
		d.models = onOne()
		d.fault, d.faultLeft = fault, call
		c := d.client(0, bodyOf("sql", 100).Filled())
		d.advance(time.Second)
		if c.Upstream() < 0 || d.metrics.values[stats.Panics] != 1 {
			t.Errorf("call %d of %s panics: sent to %d, %d panics", call, fault, c.Upstream(),
				d.metrics.values[stats.Panics])
		}
		c.Finish()
		d.drained()
	}
}
