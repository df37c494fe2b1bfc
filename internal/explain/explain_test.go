package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/plugin/config"
)

// question returns one about a chat with a prompt of 4,000 bytes, for three endpoints.
func question(policy, keys string) *Question {
	q := &Question{
		Config:  fmt.Appendf(nil, `{"lb_policy":%q,"lb_config":{%s}}`, policy, keys),
		Cluster: "llm", Seed: 1,
		Headers: [][2]string{
			{":method", "POST"}, {":path", "/v1/chat/completions"}, {"content-type", "application/json"},
		},
		Body: fmt.Appendf(nil, `{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`,
			strings.Repeat("how are you? ", 308)),
	}
	q.State.AtMS = 1e12
	q.State.Clusters = []state.Cluster{{Name: "llm", Endpoints: []state.Endpoint{
		{Addr: "10.0.0.1:8000", Health: "healthy", Requests: 3, Tokens: 3001, Weight: 1},
		{Addr: "10.0.0.2:8000", Health: "healthy", Requests: 1, Tokens: 1500, Weight: 1},
		{Addr: "10.0.0.3:8000", Health: "ejected"},
	}}}
	return q
}

// ask returns the only decision about the question.
func ask(t *testing.T, q *Question) (state.Request, state.Decision) {
	t.Helper()
	e, err := Ask(q)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Decisions) != 1 || e.AtMS != q.State.AtMS {
		t.Fatalf("%+v", e)
	}
	return e.Request, e.Decisions[0]
}

// What is in flight, what is cached, and who is out decide, as in a gateway.
func TestAsk(t *testing.T) {
	r, d := ask(t, question("prefix_cache", ""))
	want := state.Request{
		Call: "computes", API: "chat", Model: "m", Stream: true, BodyBytes: r.BodyBytes, ReadBytes: r.BodyBytes,
		TextBytes: 4008,
	}
	if r != want || r.BodyBytes < 4000 {
		t.Errorf("read %+v, want %+v", r, want)
	}
	if d.Endpoint != "10.0.0.2:8000" || d.Rule != "cost" || d.Reason != "chosen" || d.Blocks == 0 || d.Plan == nil {
		t.Errorf("%+v", d)
	}
	if len(d.Candidates) != 2 || d.Candidates[1].Tokens != 3001 || d.Candidates[1].Requests != 3 {
		t.Errorf("candidates %+v", d.Candidates)
	}
	if len(d.Excluded) != 1 || d.Excluded[0] != (state.Excluded{Addr: "10.0.0.3:8000", Why: "ejected"}) {
		t.Errorf("excluded %+v", d.Excluded)
	}

	q := question("prefix_cache", "")
	q.Cached = map[string]float64{"10.0.0.1:8000": 0.9}
	if _, d = ask(t, q); d.Endpoint != "10.0.0.1:8000" || d.Candidates[0].Matched < 0.8 || d.Candidates[0].Credit == 0 {
		t.Errorf("with most of the prompt cached: %+v", d)
	}
}

// Pages of metrics are read at their age.
func TestAskByMetrics(t *testing.T) {
	q := question("endpoint_metrics", "")
	for i, e := range []state.Engine{{AgeMS: 300, Waiting: 1}, {AgeMS: 900, Waiting: 30, KVCache: 0.5}} {
		q.State.Clusters[0].Endpoints[i].Engine = &e
	}
	if _, d := ask(t, q); d.Endpoint != "10.0.0.1:8000" || d.Reason != "chosen" {
		t.Errorf("%+v", d)
	}
	q = question("endpoint_metrics", "")
	if _, d := ask(t, q); d.Endpoint != "" || d.Reason != "no_metrics" {
		t.Errorf("without metrics: %+v", d)
	}
}

// Counts that a gateway has in Redis are given, and need none here.
func TestAskWithRedis(t *testing.T) {
	q := question("global_least_request", `"serviceFQDN":"redis.static","max_inflight":1,"queue":{"max_wait":"9s"}`)
	if _, d := ask(t, q); !d.Waits || d.Rule != "caps" || d.Plan.MaxWaitMS != 9000 || !d.Candidates[0].Full {
		t.Errorf("%+v", d)
	}
}

func TestAskOfNothing(t *testing.T) {
	q := question("global_least_request", "")
	q.State.Clusters = nil
	if _, err := Ask(q); !errors.Is(err, ErrNoEndpoints) {
		t.Errorf("without endpoints: %v", err)
	}
	q = question("global_least_request", `"envoy":{"endpoints":["10.0.0.9:80"]}`)
	q.Host, q.State.Clusters = config.Envoy, nil
	if _, d := ask(t, q); d.Endpoint != "10.0.0.9:80" {
		t.Errorf("by the configuration's list: %+v", d)
	}
	q.Config = []byte("{")
	if _, err := Ask(q); err == nil {
		t.Error("a configuration that is no JSON is accepted")
	}
}
