package truth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Plan is how many requests are sent, how many a second.
type Plan struct {
	Requests int
	Rate     float64
	Seed     uint64
}

// idHeader is the header by which a request is the same for its client, its server and the access log.
const idHeader = "x-truth-id"

// request is one that is compared, with what its client and its server know of it.
type request struct {
	loadgen.Request
	usage    bool // the answer reports it
	breaks   bool // its server breaks it off
	sentAt   time.Time
	sample   loadgen.Sample
	report   vllmsim.Report
	reported bool // there is one
}

// models are those that requests name, by turns at random.
var models = []string{"llama-3-8b", "qwen-3-32b", "mistral-small"}

// requests draws the requests of a plan.
func (p Plan) requests() ([]request, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7472757468))
	list := make([]request, p.Requests)
	due := time.Duration(0)
	for i := range list {
		q := &list[i]
		q.ID, q.Due, q.Model = i, due, models[rng.IntN(len(models))]
		q.Stream, q.Prompt, q.MaxTokens = rng.IntN(3) > 0, 11+rng.IntN(700), 3+rng.IntN(61)
		q.usage = !q.Stream || rng.IntN(2) == 0
		q.Header = http.Header{idHeader: {strconv.Itoa(i)}, "x-tenant": {"tenant-" + strconv.Itoa(rng.IntN(5))}}
		body, err := loadgen.ChatBody(q.Model, loadgen.Text(rng, q.Prompt), q.MaxTokens, q.Stream)
		if err != nil {
			return nil, err
		}
		if q.Stream && !q.usage {
			body = bytes.Replace(body, []byte(`"include_usage":true`), []byte(`"include_usage":false`), 1)
		}
		switch x := rng.IntN(100); {
		case x < 7 && q.Stream:
			q.Leave = loadgen.Leave{At: loadgen.MidStream, Events: 1 + rng.IntN(q.MaxTokens-1)}
		case x < 10:
			q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(rng.IntN(5)) * time.Millisecond}
		case x < 15 && q.Stream:
			q.breaks = true
			body = append(body[:len(body)-1], fmt.Sprintf(`,"sim_reset_after":%d}`, 1+rng.IntN(q.MaxTokens-1))...)
		}
		q.Body = body
		list[i], due = *q, due+time.Duration(rng.ExpFloat64()/p.Rate*float64(time.Second))
	}
	return list, nil
}

// stage is a gateway before servers that report what they know.
type stage struct {
	gateway *harness.Gateway
	servers []*vllmsim.Server
	mu      sync.Mutex
	reports map[string]vllmsim.Report // of servers, by the ID of the request
}

// servers is how many there are.
const servers = 5

// engine is what the servers are like: 60 tokens take a third of a second.
func engine() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 5, 0.1
	return c
}

// start starts servers and a gateway before them, with the plugin's configuration.
func start(ctx context.Context, c vllmsim.Config, config string) (*stage, error) {
	st := &stage{reports: map[string]vllmsim.Report{}}
	c.Report = func(r *http.Request, t vllmsim.Report) {
		st.mu.Lock()
		defer st.mu.Unlock()
		if id := r.Header.Get(idHeader); id != "" {
			st.reports[id] = t
		}
	}
	o := harness.Options{Workers: 2, Config: config, Edit: logFields}
	for i := range servers {
		c.Index = i
		s := vllmsim.New(c)
		if err := s.Start("127.0.0.1:0"); err != nil {
			return nil, errors.Join(err, st.close())
		}
		st.servers = append(st.servers, s)
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: s.Addr()})
	}
	var err error
	if st.gateway, err = harness.Start(ctx, o); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

func (st *stage) close() (err error) {
	if st.gateway != nil {
		err = st.gateway.Stop()
	}
	for _, s := range st.servers {
		err = errors.Join(err, s.Close())
	}
	return err
}

// play sends the requests when they are due, and joins what servers have reported.
func (st *stage) play(ctx context.Context, list []request) error {
	client := loadgen.NewClient(loadgen.Options{URL: st.gateway.URL() + compare.Path})
	defer client.Close()
	var all sync.WaitGroup
	begin := time.Now()
	for i := range list {
		q := &list[i]
		if err := wait.For(ctx, time.Until(begin.Add(q.Due))); err != nil {
			return err
		}
		all.Add(1)
		go func() {
			defer all.Done()
			q.sample = client.Do(ctx, &q.Request, begin)
			q.sentAt = begin.Add(q.sample.Sent)
		}()
	}
	all.Wait()
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range list {
		list[i].report, list[i].reported = st.reports[strconv.Itoa(i)]
	}
	return nil
}
