package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// Act is a scene being played.
type Act struct {
	*Settings
	Ctx     context.Context
	Site    *audit.Site
	Rand    *rand.Rand
	Streams *audit.Streams // nil in a bare scene
	Result  Result
	MayCut  int // how many of the streams the scene has cut
}

// NewAct returns a scene of that name that has not begun.
func NewAct(ctx context.Context, s *Settings, site *audit.Site, name string) *Act {
	return &Act{
		Settings: s, Ctx: ctx, Site: site, Rand: rand.New(rand.NewPCG(s.Seed, 0)),
		Result: Result{Scene: name, Figures: map[string]float64{}},
	}
}

// Result is what one scene has shown.
type Result struct {
	Scene        string             `json:"scene"`
	Requests     int                `json:"requests"`
	Failed       int                `json:"failed"`
	Excused      int                `json:"excused"`
	Left         int                `json:"left"`     // clients that left as planned
	AgreeMS      int64              `json:"agree_ms"` // until all parties counted the same, streams still open
	DrainMS      int64              `json:"drain_ms"` // until nothing was counted after the last end
	*RedisResult                    // nil without Redis
	Figures      map[string]float64 `json:"figures,omitempty"`
	Peak         int64              `json:"-"` // the most requests in flight at an endpoint, by the plugin
	Waited       int                `json:"-"` // requests that had to wait in a queue
}

// RedisResult is what one scene with Redis has shown. Its times are those of requests that their server answers at
// once.
type RedisResult struct {
	Lost         int            `json:"lost"` // with their gateway
	Fallbacks    map[string]int `json:"fallbacks"`
	BaseP99MS    float64        `json:"base_p99_ms"`    // before the fault
	FirstP99MS   float64        `json:"first_p99_ms"`   // in its first second
	LaterP99MS   float64        `json:"later_p99_ms"`   // from its second second on
	Outage       bool           `json:"outage"`         // no gateway could reserve in Redis
	AddedFirstMS float64        `json:"added_first_ms"` // by the fault, to the p99; noise may make it negative
	AddedLaterMS float64        `json:"added_later_ms"`
}

// print writes what a scene has shown in one line.
func (a *Act) print(took time.Duration) {
	r := &a.Result
	redis := ""
	if r.RedisResult != nil {
		redis = fmt.Sprintf("; p99 %.1f ms, then %.1f and %.1f; fell back %v",
			r.BaseP99MS, r.FirstP99MS, r.LaterP99MS, r.Fallbacks)
	}
	fmt.Fprintf(a.Progress, "%-28s %3.0f s, %5d requests, %4d left, %3d failed with a reason, %d without; "+
		"counts equal after %d ms, 0 after %d ms%s  %v\n",
		r.Scene, took.Seconds(), r.Requests, r.Left, r.Excused, r.Failed, r.AgreeMS, r.DrainMS, redis, r.Figures)
}

// Note keeps a figure.
func (a *Act) Note(name string, x float64) { a.Result.Figures[name] = x }

// NoteMS keeps a time, unless the scene has kept a longer one under that name.
func (a *Act) NoteMS(name string, took time.Duration) {
	a.Note(name, max(a.Result.Figures[name], float64(took.Milliseconds())))
}

// Load is traffic during a part of a scene.
type Load struct {
	Rate    float64       // requests a second, over all gateways
	Span    time.Duration // at least
	Timeout time.Duration // of each request; 0 means a minute
	// Request makes the requests; nil means audit.Short.
	Request func(*rand.Rand, int) loadgen.Request
	// Excused returns how many failures are the endpoint's own; nil means none.
	Excused func(audit.Tally) int
	Most    int                // requests under way at each gateway at most, 0 for any number
	At      []*harness.Gateway // none means all
}

// Play sends traffic during something, which may be nil, and counts its end.
func (a *Act) Play(l Load, during func()) audit.Tally {
	if l.Timeout == 0 {
		l.Timeout = time.Minute
	}
	if l.Request == nil {
		l.Request = audit.Short
	}
	if len(l.At) == 0 {
		l.At = a.Site.Gateways
	}
	var all []*audit.Traffic
	for _, g := range l.At {
		client := audit.Client(g, "", l.Timeout)
		defer client.Close()
		t := audit.NewTraffic(client, l.Rate/float64(len(l.At)), a.Rand.Uint64(), l.Request)
		t.Most = l.Most
		t.Start(a.Ctx)
		all = append(all, t)
	}
	end := time.Now().Add(l.Span)
	var err error
	if during != nil {
		err = Try(during)
	}
	a.Sleep(time.Until(end))
	var sum audit.Tally
	for _, t := range all {
		t.Pause()
		sum.Add(t.Tally())
	}
	Check(err, Try(func() { a.Count(sum, l.Excused) }))
	return sum
}

// Count adds up how requests ended. A failure that is not excused ends the scene.
func (a *Act) Count(tally audit.Tally, excused func(audit.Tally) int) {
	may := 0
	if excused != nil {
		may = min(excused(tally), tally.Failed())
	}
	a.Result.Requests += tally.Sent
	a.Result.Left += tally.Left
	a.Result.Waited += tally.Waited
	a.Result.Excused += tally.Excused + may
	a.Result.Failed += tally.Failed() - may
	FailIf(tally.Failed() > may, "%d of %d requests failed without reason: %v, first: %s",
		tally.Failed()-may, tally.Sent, tally.Errors, tally.First)
}

// AllFailed excuses every failure, for Load.Excused.
func AllFailed(t audit.Tally) int { return t.Failed() }

// Of excuses failures of the given kinds, for Load.Excused.
func Of(kinds ...string) func(audit.Tally) int {
	return func(t audit.Tally) (n int) {
		for _, k := range kinds {
			n += t.Errors[k]
		}
		return n
	}
}

// Body returns the body of a chat completion with the text, for the answer that the request is to have.
func Body(text string, q *loadgen.Request) []byte {
	return Must(loadgen.ChatBody("sim", text, q.MaxTokens, q.Stream)) // strings and numbers always marshal
}

// Arrive has n clients arrive at the same moment, at the addresses in turn, and stay for answers of so many tokens.
func Arrive(n, tokens int, addrs ...string) *loadgen.Crowd {
	body := Must(loadgen.ChatBody("sim", "all at once", tokens, true))
	return Must(loadgen.Arrive(addrs, n, loadgen.PostRequest("herd", "/v1/chat/completions", body)))
}

// Spread records the least and the most requests in flight at a server, which may differ by at most maxApart.
func (a *Act) Spread(snap audit.Snapshot, maxApart int) {
	least, most := snap.Spread()
	a.Note("min_inflight", float64(least))
	a.Note("max_inflight", float64(most))
	FailIf(most-least > int64(maxApart), "%d on one server, %d on another: more than %d apart", most, least, maxApart)
}

// Sleep waits for d or for the end of the run.
func (a *Act) Sleep(d time.Duration) { _ = wait.For(a.Ctx, d) }

// Pick draws n of a list.
func Pick[T any](r *rand.Rand, list []T, n int) (picked []T) {
	for _, i := range r.Perm(len(list))[:n] {
		picked = append(picked, list[i])
	}
	return picked
}

// For does something again and again for a time, or until the end of the run.
func (a *Act) For(span time.Duration, do func()) {
	for end := time.Now().Add(span); time.Now().Before(end) && a.Ctx.Err() == nil; {
		do()
	}
}

// Patience bounds the wait for what has to come: on a busy machine that takes long.
const Patience = harness.Patience

// Busy is what a machine with other work may add to a period.
const Busy = 4 * time.Second

// Until calls check again and again until nothing ends it, and ends the scene with what ended it last when that takes
// longer than Patience.
func (a *Act) Until(check func()) { a.Within(Patience, check) }

// Within is Until with another limit.
func (a *Act) Within(limit time.Duration, check func()) { Within(a.Ctx, limit, check) }

// Within calls check again and again until nothing ends it, and ends the scene with what ended it last when that takes
// longer than the limit.
func Within(ctx context.Context, limit time.Duration, check func()) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	Check(wait.Until(ctx, 50*time.Millisecond, func() error { return Try(check) }))
}

// Push gives every gateway a configuration, and waits until the plugin balances by it on all workers.
func (a *Act) Push(config string) {
	for _, g := range a.Site.Gateways {
		Check(g.PushPlugin(a.Ctx, config))
	}
	Check(a.Site.AwaitReady(a.Ctx))
}

// Sum returns the sum of the statistics of the first gateway that match the filter.
func (a *Act) Sum(filter string) float64 { return Must(a.Site.Gateway.Sum(a.Ctx, filter)) }

// Agreed waits until all parties count what the streams of the scene are, and returns how long that took.
func (a *Act) Agreed() time.Duration {
	_, took, err := a.Site.AgreeWith(a.Ctx, a.Streams.Open)
	Check(err)
	return took
}

// AskAll sends n requests in all from several clients at a time, and counts them. Number k is sent by ask.
func (a *Act) AskAll(n int, ask func(k int)) {
	const clients = 16
	a.Result.Requests += n
	err := Try(func() {
		All(clients, func(i int) {
			for k := i; k < n; k += clients {
				ask(k)
			}
		})
	})
	if err != nil {
		a.Result.Failed++
		Check(err)
	}
}

// Ask is the function Ask in a scene.
func (a *Act) Ask(url string, keep bool, header http.Header) audit.Reply {
	return Ask(a.Ctx, url, keep, header)
}

// Ask sends a GET request, as audit.Ask does, that must be answered 200.
func Ask(ctx context.Context, url string, keep bool, header http.Header) audit.Reply {
	r := Must(audit.Ask(ctx, url, keep, header))
	FailIf(r.Status != http.StatusOK, "%s: %v", url, r)
	return r
}
