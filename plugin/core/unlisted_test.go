package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/regions"
)

var refusingConfig = strings.Replace(listsConfig, `"cluster":"lists"`, `"cluster":"lists","refuse_unknown":true`, 1)

// askedFor sends a request for the model and lets time pass until it goes on, half a second at most.
func (d *fakeDriver) askedFor(worker int, model string) *fakeStream {
	c := d.client(worker, bodyOf(model, 100).Filled())
	for range 100 {
		if !c.Held() {
			break
		}
		d.advance(5 * time.Millisecond)
	}
	return c
}

// wantUnlisted fails the test unless the request is answered with these models.
func wantUnlisted(t *testing.T, what string, c *fakeStream, models string) {
	t.Helper()
	r := c.Result()
	if !c.Ended || r.Status != 404 || r.Headers["x-warmgate-reason"] != "no_model" ||
		!strings.HasSuffix(r.Body, `"code":"model_not_found","models":`+models+`}}`) {
		t.Errorf("%s: at endpoint %d, %+v", what, c.Upstream(), r)
	}
}

// A request for a model that nobody lists is answered with those that there are, the first one of the gateway's life
// included; one without a model, or that cannot be read, is balanced.
func TestUnlistedModels(t *testing.T) {
	for name, change := range map[string]string{
		"requests": "", "tokens": `"unit":"tokens",`, "prompts": "prefix_cache",
	} {
		t.Run(name, func(t *testing.T) {
			config := refusingConfig
			if name == "prompts" {
				config = strings.Replace(config, "global_least_request", change, 1)
			} else {
				config = strings.Replace(config, `_config":{`, `_config":{`+change, 1)
			}
			d := startFake(t, 2, 4, config)
			d.models = onOne()
			wantUnlisted(t, "the first", d.askedFor(0, "typo"), `["base","sql"]`)
			wantUnlisted(t, "another worker's", d.askedFor(1, `ty\"po`), `["base","sql"]`)
			for _, model := range []string{"sql", "base"} {
				d.served(0, model)
			}
			for what, body := range map[string]string{
				"no model": `{"prompt":"a"}`, "null": `{"model":null,"prompt":"a"}`, "no object": `a`, "nothing": "",
				"a cut name": `{"model":"ty`,
			} {
				c := d.client(0, streamtest.Request{Frames: []string{body}, Unended: what == "a cut name"})
				d.advance(500 * time.Millisecond)
				if what == "a cut name" {
					c.Send("po", false)
				}
				if c.Upstream() < 0 {
					t.Fatalf("%s: %+v", what, c.Result())
				}
				if what == "a cut name" {
					c.Send(`"}`, true)
				}
				c.Finish()
			}
			if e := d.explain(0, bodyOf("typo", 100)); e.Decisions[0].Reason != "no_model" {
				t.Errorf("explained as %+v", e.Decisions[0])
			}
			d.drained()
		})
	}
}

// Before a request is refused for its model the lists are read again, once a second at most: what was loaded since is
// found by the first one.
func TestUnlistedModelsAreLookedFor(t *testing.T) {
	d := startFake(t, 1, 4, refusingConfig)
	d.models = onOne()
	wantUnlisted(t, "not loaded", d.askedFor(0, "new"), `["base","sql"]`)
	d.advance(2 * time.Second)
	d.models[1] = []string{"base", "new"}
	if at := d.served(0, "new"); at != 1 {
		t.Errorf("sent to endpoint %d", at)
	}
	before := d.askedTimes()
	for range 500 {
		wantUnlisted(t, "made up", d.askedFor(0, "typo"), `["base","new","sql"]`)
		d.advance(10 * time.Millisecond)
	}
	if n := d.askedTimes() - before; n > 4*8 {
		t.Errorf("lists were asked for %d times in five seconds", n)
	}
	d.drained()
}

// While the list of one endpoint is not known, whatever is wrong with it, no request is refused for its model.
func TestUnlistedModelsWithBrokenLists(t *testing.T) {
	for name, broken := range map[string]string{
		"text": "Not Found", "cut off": `{"data":[{"id":"base"},{"id":"s`, "nothing in it": `{"data":[]}`,
		"unauthorized": "!" + endpoints.ScrapeStatus + " 401", "unreachable": "!" + endpoints.ScrapeUnreachable,
		"hangs": "",
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 4, refusingConfig)
			d.models, d.silent = onOne(), map[int]bool{0: name == "hangs"}
			d.listing = map[int]string{0: broken}
			for range 20 {
				c := d.askedFor(0, "other")
				if c.Upstream() < 0 {
					t.Fatalf("%+v", c.Result())
				}
				c.Finish()
				d.advance(500 * time.Millisecond)
			}
			d.drained()
		})
	}
}

// A list that is not read any more, since its endpoint hangs, says nothing of models that may have come since.
func TestUnlistedModelsWhileOneHangs(t *testing.T) {
	d := startFake(t, 1, 4, refusingConfig)
	d.models = onOne()
	d.served(0, "base")
	d.silent = map[int]bool{2: true}
	d.advance(2 * time.Second)
	for range 20 {
		c := d.askedFor(0, "other")
		if c.Upstream() < 0 {
			t.Fatalf("%+v", c.Result())
		}
		c.Finish()
		d.advance(engines.ModelsTimeout / 4)
	}
	d.drained()
}

// In shadow mode nothing is refused.
func TestUnlistedModelsInShadow(t *testing.T) {
	d := startFake(t, 1, 4, strings.Replace(refusingConfig, `_config":{`, `_config":{"shadow":true,`, 1))
	d.models = onOne()
	for range 3 {
		c := d.askedFor(0, "typo")
		if c.Upstream() < 0 {
			t.Errorf("%+v", c.Result())
		}
		c.Finish()
		d.advance(time.Second)
	}
	d.drained()
}

// A region that has not the model of a request that was forwarded to it says that it cannot serve it now: so the region
// that it is from serves it itself.
func TestUnlistedModelsOfAnotherRegion(t *testing.T) {
	us, eu := newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
		d.models = map[int][]string{0: {"base"}}
		if !strings.Contains(config, `"regions":{"name":"eu"`) {
			return config
		}
		return strings.Replace(config, `"max_inflight"`, `"models":{"cluster":"lists","refuse_unknown":true},"max_inflight"`, 1)
	})
	here := us.client(0, regionChat)
	away := us.client(0, bodyOf("sql", 100))
	if away.cluster != "to-eu" {
		t.Fatalf("with all endpoints full a request is sent to %q", away.cluster)
	}
	forwarded := bodyOf("sql", 100)
	forwarded.Headers = [][2]string{{regions.HopHeaders[0], away.header(regions.HopHeaders[0])}}
	there := eu.client(0, forwarded)
	pass(200*time.Millisecond, us, eu)
	if r := there.Result(); !there.Ended || r.Status != 503 || r.Headers["x-warmgate-reason"] != "no_model" {
		t.Errorf("at endpoint %d, %+v", there.Upstream(), r)
	}
	wantUnlisted(t, "a client's there", eu.askedFor(0, "sql"), `["base"]`)
	here.Finish()
	away.Finish()
	us.drained()
	eu.drained()
}

// A region that answers 404 to a request for a model gets no more of those for a while, and other models' as before.
func TestModelsThatAnotherRegionLacks(t *testing.T) {
	us, eu := startRegions(t, 1, 8, "")
	here := us.client(0, regionChat)
	send := func(model string, away bool) {
		t.Helper()
		c := us.client(0, bodyOf(model, 100))
		if (c.cluster == "to-eu") != away {
			t.Fatalf("a request for %s is sent to %q", model, c.cluster)
		}
		if !away {
			c.ResetByClient()
			return
		}
		c.Head(404, [2]string{"content-type", "application/json"})
		c.Data(`{"error":{"message":"The model does not exist."}}`)
		c.Finish()
	}
	send("sql", true)
	send("sql", false)
	send("base", true)
	pass(6*time.Second, us, eu)
	send("sql", true)
	here.Finish()
	us.drained()
	eu.drained()
}

// A request for a model that adopted servers lack comes back, and waits for one at home; the next one stays there.
func TestModelsThatAdoptedServersLack(t *testing.T) {
	us, eu := newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
		d.models = map[int][]string{0: {"base", "sql"}, 2: {"base"}, 3: {"base"}}
		return strings.Replace(adopting(2)(d, config), `"max_inflight"`,
			`"models":{"cluster":"lists","refuse_unknown":true},"max_inflight"`, 1)
	})
	us.peers = nil
	pass(3*time.Second, us, eu)
	us.wantAdopted(1)
	home := us.askedFor(0, "base")
	home.wantAt(false)
	waits := []*fakeStream{us.client(1, bodyOf("sql", 100)), us.client(0, bodyOf("sql", 100))}
	us.advance(time.Second)
	us.wantWaiting(waits...)
	away := us.askedFor(0, "base")
	away.wantAt(true)
	home.Finish()
	us.advance(500 * time.Millisecond)
	for _, c := range waits {
		c.wantAt(false)
		c.Finish()
		us.advance(500 * time.Millisecond)
	}
	away.Finish()
	us.drained()
}
