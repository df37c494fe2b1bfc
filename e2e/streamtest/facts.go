package streamtest

import (
	"fmt"
	"strings"
	"time"
)

const (
	noModel = `{"error":{"message":"The model ` + "`%s`" + ` does not exist.","type":"NotFoundError",` +
		`"param":"model","code":404}}`
	tooLong = `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested ` +
		`9000 tokens.","type":"BadRequestError","param":null,"code":400}}`
)

// ofModel is a request for a model, with a prompt of so many bytes.
func ofModel(model string, size int) Request {
	return Request{Frames: []string{fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s"}]}`, model,
		strings.Repeat("long ", size/5))}}
}

// factScenarios are fleets in which not every endpoint has every model, or the same context.
var factScenarios = []scenario{
	{name: "an adapter on a part", endpoints: 4, run: adapterOnAPart},
	{name: "an adapter on a part, tokens", endpoints: 4, config: `"unit":"tokens"`, run: adapterOnAPart},
	{name: "an adapter on a part, cached prompts", policy: prefixCache, endpoints: 4, run: adapterOnAPart},
	{name: "a model that nobody has", endpoints: 3, run: func(t *run) {
		played := playAll(t, 90, func(i int) (string, Request, answerOf) {
			if i%2 == 0 {
				return "base", ofModel("base", 20), served
			}
			return "typo", ofModel("typo", 20), func(int) (int, string) { return 404, fmt.Sprintf(noModel, "typo") }
		})
		for at, n := range played.endpoints["typo"] {
			if n == 0 {
				t.Errorf("endpoint %d was never asked", at)
			}
		}
		wantShared(t, played.endpoints["base"])
	}},
	{name: "a refusal of another name", endpoints: 4, config: `"unit":"tokens"`, run: func(t *run) {
		twice := Request{Frames: []string{`{"model":"base","model":"typo","messages":[{"role":"user","content":"a"}]}`}}
		played := playAll(t, 320, func(i int) (string, Request, answerOf) {
			if i%4 == 0 {
				return "base", ofModel("base", 20), served
			}
			return "typo", twice, func(at int) (int, string) {
				if at == 0 {
					return 200, Answer
				}
				return 404, fmt.Sprintf(noModel, "typo")
			}
		})
		wantShared(t, played.endpoints["base"])
	}},
	{name: "a body that does not come", endpoints: 2, run: func(t *run) {
		playAll(t, 4*t.Workers(), func(int) (string, Request, answerOf) {
			return "typo", ofModel("typo", 20), func(int) (int, string) { return 404, fmt.Sprintf(noModel, "typo") }
		})
		s := t.Open(Request{Frames: []string{`{"model":`}, Unended: true})
		t.Advance(400 * time.Millisecond)
		s.wantSent()
		s.Send(`"m"}`, true)
		s.wantReceived(`{"model":"m"}`)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "an adapter that comes later", endpoints: 2, needs: []Ability{SimulatedTime}, run: func(t *run) {
		has := 1
		play := func() *played {
			return playAll(t, 20, func(int) (string, Request, answerOf) {
				return "sql-adapter", ofModel("sql-adapter", 20), func(at int) (int, string) {
					if at < has {
						return 200, Answer
					}
					return 404, fmt.Sprintf(noModel, "sql-adapter")
				}
			})
		}
		play()
		play().wantFailed(t, "sql-adapter", 0)
		has = 2
		t.Advance(6 * time.Second) // it is asked again then
		p := play()
		p.wantFailed(t, "sql-adapter", 0)
		wantShared(t, p.endpoints["sql-adapter"])
	}},
	{name: "an adapter that is listed", endpoints: 4, run: listedAdapter},
	{name: "mixed context lengths", endpoints: 4, run: mixedContexts},
	{name: "mixed context lengths, tokens", endpoints: 4, config: `"unit":"tokens"`, run: mixedContexts},
}

// answerOf is the status and the body with which an endpoint answers.
type answerOf func(endpoint int) (status int, body string)

func served(int) (int, string) { return 200, Answer }

// played is what became of requests, by their kind.
type played struct {
	endpoints map[string][]int // requests of each
	failed    map[string]int
}

// playAll sends requests one after the other over all workers, and answers each.
func playAll(t *run, n int, next func(i int) (string, Request, answerOf)) *played {
	t.Helper()
	p := &played{map[string][]int{}, map[string]int{}}
	for i := range n {
		model, r, answer := next(i)
		r.Worker, r.NoRetry = i/2%t.Workers(), true
		s := t.begin(r)
		if p.endpoints[model] == nil {
			p.endpoints[model] = make([]int, t.size)
		}
		p.endpoints[model][s.Upstream()]++
		status, body := answer(s.Upstream())
		if status >= 400 {
			p.failed[model]++
		}
		s.reply(status, body, [2]string{"content-type", "application/json"})
		if i%20 == 19 {
			t.Advance(100 * time.Millisecond)
		}
	}
	t.wantDrained()
	return p
}

// wantFailed fails the test if more requests for the model have failed.
func (p *played) wantFailed(t *run, model string, most int) {
	t.Helper()
	if t.isReal() {
		most += 20 // on a busy machine there is time to ask again, more than once
	}
	if p.failed[model] > most {
		t.Errorf("%d requests for %s have failed, want %d at most; by endpoint %v", p.failed[model], model, most,
			p.endpoints[model])
	}
}

// wantShared fails the test unless every endpoint has had at least a quarter of its part.
func wantShared(t *run, counts []int) {
	t.Helper()
	total := 0
	for _, n := range counts {
		total += n
	}
	for at, n := range counts {
		if 4*n*len(counts) < total {
			t.Errorf("endpoint %d has had %d of %d requests: %v", at, n, total, counts)
		}
	}
}

// adapterOnAPart has one of four endpoints serve an adapter, and all of them its base model.
func adapterOnAPart(t *run) {
	play := func(n int) *played {
		return playAll(t, n, func(i int) (string, Request, answerOf) {
			if i%2 == 0 {
				return "base", ofModel("base", 20), served
			}
			return "sql-adapter", ofModel("sql-adapter", 20), func(at int) (int, string) {
				if at == 0 {
					return 200, Answer
				}
				return 404, fmt.Sprintf(noModel, "sql-adapter")
			}
		})
	}
	t.mark(t.ejections())
	play(40*t.Workers()).wantFailed(t, "sql-adapter", 8*t.Workers())
	p := play(200)
	p.wantFailed(t, "sql-adapter", 3) // an endpoint is asked again, with patience
	if t.policy != prefixCache {      // which keeps the one prompt where it is
		wantShared(t, p.endpoints["base"])
	}
	t.wantGrown(t.ejections(), 0)
}

// listedAdapter has one of four endpoints list and serve an adapter, and then another one: none of its requests is
// refused, the first one of the gateway's life included.
func listedAdapter(t *run) {
	const base, both = `{"data":[{"id":"base"}]}`, `{"data":[{"id":"base"},{"id":"sql-adapter","parent":"base"}]}`
	t.setPages(base, base, base, both)
	t.apply(`"body_timeout":"10s","models":{"cluster":"warmgate-metrics","path":"/metrics","interval":"1s"}`)
	first := t.Open(ofModel("sql-adapter", 20))
	t.Advance(100 * time.Millisecond)
	if at := first.Upstream(); at != 3 {
		t.Errorf("the first request is sent to endpoint %d", at)
	}
	t.finish(first)
	play := func(has int) *played {
		return playAll(t, 80, func(i int) (string, Request, answerOf) {
			if i%4 > 0 {
				return "base", ofModel("base", 20), served
			}
			return "sql-adapter", ofModel("sql-adapter", 20), func(at int) (int, string) {
				if at == has {
					return 200, Answer
				}
				return 404, fmt.Sprintf(noModel, "sql-adapter")
			}
		})
	}
	t.Advance(200 * time.Millisecond) // until all workers know
	p := play(3)
	if n := p.failed["sql-adapter"]; n != 0 {
		t.Errorf("%d requests for the adapter were refused: %v", n, p.endpoints)
	}
	wantShared(t, p.endpoints["base"])
	t.setPages(both, base, base, base)
	t.Advance(3 * time.Second) // it is read again, on a busy machine later
	if !t.Await(func() bool { return adapterIsAt(t, 0) }) {
		t.Fatal("it is not followed to where it was loaded")
	}
	p = play(0)
	if n := p.failed["sql-adapter"]; n != 0 {
		t.Errorf("%d requests were refused after it was loaded elsewhere: %v", n, p.endpoints)
	}
}

// adapterIsAt reports whether all workers send requests for the adapter to the endpoint, by requests that show nothing,
// since their clients leave.
func adapterIsAt(t *run, endpoint int) bool {
	for i := range 4 * t.Workers() {
		r := ofModel("sql-adapter", 20)
		r.Worker = i % t.Workers()
		s := t.begin(r)
		at := s.Upstream()
		s.ResetByClient()
		if at != endpoint {
			return false
		}
	}
	return true
}

// mixedContexts has two of four endpoints refuse long prompts. None is shorter than the last one: one that is shorter
// than all that were refused is tried, since it may fit.
func mixedContexts(t *run) {
	long := 30_000
	play := func(n int) *played {
		return playAll(t, n, func(i int) (string, Request, answerOf) {
			if i%3 > 0 {
				return "short", ofModel("m", 100), served
			}
			long++
			return "long", ofModel("m", long), func(at int) (int, string) {
				if at >= 2 {
					return 200, Answer
				}
				return 400, tooLong
			}
		})
	}
	t.mark(t.ejections())
	play(60*t.Workers()).wantFailed(t, "long", 8*t.Workers())
	p := play(240)
	p.wantFailed(t, "long", 3)
	wantShared(t, p.endpoints["short"])
	t.wantGrown(t.ejections(), 0)
}
