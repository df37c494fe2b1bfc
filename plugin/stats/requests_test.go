package stats

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/internal/topnames"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/measured"
)

// shown are Metrics as tests see them: names in their short form, counters as sums, histograms as lists.
type shown struct {
	names      []string
	counters   map[string]int64
	histograms map[string][]uint64
}

func newShown() *shown {
	return &shown{counters: map[string]int64{}, histograms: map[string][]uint64{}}
}

func (s *shown) define(name string) uint32 {
	s.names = append(s.names, statname.Short(name))
	return uint32(len(s.names) - 1)
}

func (s *shown) Counter(name string) uint32   { return s.define(name) }
func (s *shown) Gauge(name string) uint32     { return s.define(name) }
func (s *shown) Histogram(name string) uint32 { return s.define(name) }
func (s *shown) Add(id uint32, n int64)       { s.counters[s.names[id]] += n }
func (s *shown) Set(id uint32, n uint64) {
	s.histograms[s.names[id]] = append(s.histograms[s.names[id]], n)
}

// sum returns the sum of the counters of a statistic with all the labels.
func (s *shown) sum(stat string, labels ...string) (n int64) {
	for name, v := range s.counters {
		has := strings.HasPrefix(name, stat+";") || name == stat
		for _, l := range labels {
			has = has && strings.Contains(name+";", ";"+l+";")
		}
		if has {
			n += v
		}
	}
	return n
}

// stream returns a stream that has ended well.
func stream() *measured.Request {
	return &measured.Request{
		Cluster: "llm", Endpoint: "10.0.0.1:8000", Policy: "prefix_cache", Class: "batch",
		Model: "qwen", Asked: "qwen", Tenant: "acme",
		Status: 200, Streamed: true, Retries: 2,
		Duration: 1234567 * time.Microsecond, Wait: 100 * time.Millisecond, TTFT: 250 * time.Millisecond,
		Prefill: 150 * time.Millisecond, Decode: 900 * time.Millisecond, PerToken: 9090909 * time.Nanosecond,
		GapP99: 31 * time.Millisecond, Parts: 100,
		Tokens: price.Tokens{Input: 200, Cached: 800, Output: 60, Reasoning: 40},
		Cost:   12345, Currency: "USD",
	}
}

// One request is in each statistic that is counted for requests, with the labels that are documented for it.
func TestOneRequest(t *testing.T) {
	m := newShown()
	s := New(m)
	s.Measured(stream())
	s.Flush()
	s.Flush()
	const of = ";cluster=llm;policy=prefix_cache;model=qwen;class=batch"
	for name, want := range map[string]int64{
		Requests + of + ";outcome=ok":                                       1,
		AllTokens + of + ";kind=input;usage=reported":                       200,
		AllTokens + of + ";kind=cached;usage=reported":                      800,
		AllTokens + of + ";kind=output;usage=reported":                      60,
		AllTokens + of + ";kind=reasoning;usage=reported":                   40,
		Cost + ";model=qwen;tenant=acme;currency=USD":                       12345,
		Resent + ";cluster=llm":                                             2,
		EndpointRequests + ";cluster=llm;endpoint=10.0.0.1:8000;outcome=ok": 1,
		EndpointStreams + ";cluster=llm;endpoint=10.0.0.1:8000":             1,
		EndpointPrefill + ";cluster=llm;endpoint=10.0.0.1:8000":             150,
		EndpointDecode + ";cluster=llm;endpoint=10.0.0.1:8000":              900,
		EndpointTokens + ";cluster=llm;endpoint=10.0.0.1:8000":              99,
	} {
		if got, ok := m.counters[name]; !ok || got != want {
			t.Errorf("%s is %d (there: %v), want %d", name, got, ok, want)
		}
		delete(m.counters, name)
	}
	for name, want := range map[string]uint64{
		Duration + of + ";outcome=ok":           1235,
		TTFT + of:                               250,
		Prefill + of:                            150,
		Decode + of:                             900,
		PerToken + of:                           9091,
		Gap + of:                                31,
		RequestTokens + of + ";kind=prompt":     1000,
		RequestTokens + of + ";kind=completion": 100,
	} {
		if got := m.histograms[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s has %d, want %d", name, got, want)
		}
		delete(m.histograms, name)
	}
	if len(m.counters) > 0 || len(m.histograms) > 0 {
		t.Errorf("beside these there are %v, %v", m.counters, m.histograms)
	}
}

// What does not apply to a request has no label, and what it has not had is in no statistic.
func TestWhatIsNotCounted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *measured.Request)
		stats  int // that there are, beside the one of the request
	}{
		"a call that computes nothing": {func(q *measured.Request) { q.Idle = true }, 0},
		"refused": {func(q *measured.Request) {
			*q = measured.Request{Outcome: measured.Refused, Tokens: price.Tokens{Input: 9, Estimated: true}}
		}, 1},
		"an answer in one piece": {func(q *measured.Request) { q.Streamed, q.TTFT = false, 0 }, 1 + 2 + 4 + 3},
		"no output has come": {func(q *measured.Request) {
			q.TTFT, q.Parts, q.Tokens, q.Currency, q.Retries = 0, 0, price.Tokens{}, "", 0
		}, 1 + 2},
	} {
		m := newShown()
		s := New(m)
		q := stream()
		c.change(q)
		s.Measured(q)
		s.Flush()
		if m.sum(Requests) != 1 || len(m.names) != 1+c.stats {
			t.Errorf("%s: %d requests, statistics %q", name, m.sum(Requests), m.names)
		}
	}
	m := newShown()
	s := New(m)
	s.Measured(&measured.Request{Outcome: measured.Refused})
	s.Flush()
	if _, ok := m.counters[Requests+";policy=none;outcome=refused"]; !ok {
		t.Errorf("%v", m.counters)
	}
}

// Counters wait for the tick; where there is none, they do not.
func TestCountersAreToldAtTicks(t *testing.T) {
	m := newShown()
	s := New(m)
	for range 3 {
		s.Measured(stream())
	}
	if len(m.counters) > 0 || len(m.histograms[TTFT+";cluster=llm;policy=prefix_cache;model=qwen;class=batch"]) != 3 {
		t.Errorf("%v, %v", m.counters, m.histograms)
	}
	if s.Flush(); m.sum(Requests) != 3 {
		t.Errorf("%v", m.counters)
	}
	s.Unticked = true
	if s.Measured(stream()); m.sum(Requests) != 4 {
		t.Errorf("%v", m.counters)
	}
}

// Durations are added up whole: what is left of milliseconds is not lost.
func TestDurationsAddUp(t *testing.T) {
	m := newShown()
	s := New(m)
	q := stream()
	q.Prefill = 400 * time.Microsecond
	for range 10 {
		s.Measured(q)
		s.Flush()
	}
	if n := m.sum(EndpointPrefill); n != 4 {
		t.Errorf("%d ms, want 4", n)
	}
}

// Models and tenants that clients make up push no real one out, whatever becomes of their requests, and all requests
// are counted.
func TestMadeUpNames(t *testing.T) {
	m := newShown()
	s := New(m)
	s.Pin([]string{"priced"})
	n := 0
	send := func(model, tenant string, o measured.Outcome) {
		q := stream()
		q.Asked, q.Tenant, q.Outcome, q.Tokens.Estimated = model, tenant, o, o != measured.OK
		if q.Model = model; o != measured.OK {
			q.Model = ""
		}
		n++
		s.Measured(q)
	}
	send("qwen", "acme", measured.OK)
	for i := range 100_000 {
		send("unknown-"+strconv.Itoa(i), "t"+strconv.Itoa(i), measured.ClientError)
		if i%10 == 0 {
			send("answered-"+strconv.Itoa(i), "u"+strconv.Itoa(i), measured.OK)
		}
		if i > 50_000 && i%100 == 0 {
			send("late", "newcomer", measured.OK)
		}
	}
	send("priced", "unanswered", measured.ServerFailed)
	send("qwen", "acme", measured.ClientLeft)
	s.Flush()
	if got := m.sum(Requests); got != int64(n) {
		t.Errorf("%d requests are counted, want %d", got, n)
	}
	if got := m.sum(Requests, "model=qwen"); got != 2 {
		t.Errorf("%d of the real model, want 2", got)
	}
	if m.sum(Requests, "model=priced") != 1 || m.sum(Cost, "model=priced", "tenant=other") != 12345 {
		t.Error("the pinned model has no label, or a tenant whom no server has answered has one")
	}
	if late := m.sum(Requests, "model=late"); late < 300 || m.sum(Cost, "tenant=newcomer") < 300*12345 {
		t.Errorf("%d of a model that came late have its name, of 500", late)
	}
	labels := map[string]bool{}
	for name := range m.counters {
		if strings.HasPrefix(name, Requests) {
			labels[name] = true
		}
	}
	if most := 2 * (firstModels + moreModels + 2); len(labels) > most || len(m.names) > 5000 {
		t.Errorf("%d of requests, %d names in all", len(labels), len(m.names))
	}
	if m.sum(Folded, "kind=model") < 100_000 || m.sum(Folded, "kind=tenant") < 100_000 {
		t.Errorf("folded: %v", m.counters)
	}
	if m.sum(Cost) != int64(n)*12345 {
		t.Error("not all cost is counted")
	}
}

// A client that makes up clusters, where it can, has no label for them.
func TestMadeUpClusters(t *testing.T) {
	m := newShown()
	s := New(m)
	for i := range 10_000 {
		s.Measured(&measured.Request{Cluster: "c" + strconv.Itoa(i), Policy: "p", Outcome: measured.ServerFailed})
	}
	s.Measured(stream())
	s.Flush()
	if m.sum(Requests, "cluster=other") != 10_000 || m.sum(Folded, "kind=cluster") != 10_000 ||
		m.sum(Requests, "cluster=llm") != 1 {
		t.Errorf("%v", m.counters)
	}
}

// Beyond the bound on combinations classes are not told apart, then models, but for pinned ones; beyond the reserve
// nothing is. No request is lost.
func TestCombinations(t *testing.T) {
	m := newShown()
	s := New(m)
	s.Pin([]string{"priced"})
	for i := range 3 * maxCombinations {
		q := stream()
		q.Class = strconv.Itoa(i)
		s.Measured(q)
	}
	q := stream()
	q.Asked, q.Model = "priced", "priced"
	s.Measured(q)
	for i := range 2 * reserved {
		q := stream()
		q.Policy = "p" + strconv.Itoa(i)
		s.Measured(q)
	}
	s.Flush()
	if len(s.requests.combinations) != maxCombinations+reserved+1 {
		t.Errorf("%d combinations", len(s.requests.combinations))
	}
	if m.sum(Requests, "policy=prefix_cache", "model=qwen", "class=other") != 2*maxCombinations ||
		m.sum(Requests, "model=priced") != 1 || m.sum(Requests, "cluster=other", "policy=other") == 0 {
		t.Errorf("%v", m.counters)
	}
	if n := m.sum(Requests); n != 3*maxCombinations+1+2*reserved {
		t.Errorf("%d requests are counted", n)
	}
}

// Models that are made up, in each class, push no real one out: neither by requests that fail, nor where a server
// answers for any name.
func TestMadeUpCombinations(t *testing.T) {
	for _, outcome := range []measured.Outcome{measured.OK, measured.Refused, measured.ServerFailed} {
		m := newShown()
		s := New(m)
		send := func(model, class string, o measured.Outcome) {
			q := stream()
			q.Asked, q.Model, q.Class, q.Outcome = model, model, class, o
			s.Measured(q)
		}
		const classes, real = 6, 1000
		for i := range firstModels {
			send("made-up-"+strconv.Itoa(i), "c0", measured.OK)
			for class := range classes {
				send("made-up-"+strconv.Itoa(i), "c"+strconv.Itoa(class), outcome)
			}
		}
		for i := range real {
			send("real", "c"+strconv.Itoa(i%classes), measured.OK)
		}
		s.Flush()
		if n := m.sum(Requests, "model=real"); n < real-topnames.Much {
			t.Errorf("%s: %d requests of the real model have its label, of %d", outcome, n, real)
		}
		if n := m.sum(Requests, "model=real", "class=c1"); outcome != measured.OK && n < (real-topnames.Much)/classes {
			t.Errorf("%s: %d requests of the real model have their class", outcome, n) // there is room for it
		}
		if n := m.sum(Requests); n != firstModels*(classes+1)+real {
			t.Errorf("%s: %d requests are counted", outcome, n)
		}
	}
}

// Of a cluster's endpoints so many are counted at a time; one that has left makes room after a while, and one that
// comes back goes on.
func TestEndpointsComeAndGo(t *testing.T) {
	m := newShown()
	s := New(m)
	send := func(addr string) {
		q := stream()
		q.Endpoint = addr
		s.Measured(q)
	}
	for i := range maxActive + 10 {
		send("old-" + strconv.Itoa(i))
	}
	s.Flush()
	if n := m.sum(Folded, "kind=endpoint"); n != 10 {
		t.Fatalf("%d folded, want 10", n)
	}
	for range idleBeats {
		send("old-0")
		s.Flush()
	}
	send("old-0")
	send("new")
	s.Flush()
	send("new")
	s.Flush()
	if m.sum(EndpointRequests, "endpoint=new") == 0 || m.sum(EndpointRequests, "endpoint=old-0") != idleBeats+2 {
		t.Errorf("%v", m.counters)
	}
	for i := range 3 * maxEndpoints {
		if i%maxActive == 0 {
			for range idleBeats + 2 {
				s.Flush()
			}
		}
		send("later-" + strconv.Itoa(i))
	}
	s.Flush()
	if len(s.requests.endpoints.known) != maxEndpoints {
		t.Errorf("%d endpoints have names", len(s.requests.endpoints.known))
	}
	defined := len(m.names)
	for range idleBeats + 2 {
		s.Flush()
	}
	before := m.sum(EndpointRequests, "endpoint=new")
	send("new")
	s.Flush()
	if len(m.names) != defined || m.sum(EndpointRequests, "endpoint=new") != before+1 {
		t.Error("an endpoint that has come back is not counted, or by another statistic")
	}
}

// A policy is 1 while it is in force and set to 0 once when it is not any more: another VM may have it yet.
func TestPolicies(t *testing.T) {
	m := newShown()
	s := New(m)
	s.Policies([]string{"a", "b"})
	s.Policies([]string{"b"})
	s.Policies([]string{"b"})
	s.Policies(nil)
	for name, want := range map[string][]uint64{"a": {1, 0}, "b": {1, 1, 1, 0}} {
		if got := m.histograms[Policy+";policy="+name]; !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// ModelLabel is what others call a model: its name only if it has a label.
func TestModelLabel(t *testing.T) {
	s := New(newShown())
	s.Measured(stream())
	for name, want := range map[string]string{"qwen": "qwen", "x": topnames.Other, "": ""} {
		if got := s.ModelLabel(name); got != want {
			t.Errorf("%q has the label %q, want %q", name, got, want)
		}
	}
}
