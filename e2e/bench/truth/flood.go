package truth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Flood is what models and tenants that somebody has made up do to the statistics. The servers answer for any name.
type Flood struct {
	Names  int     `json:"names"`         // of models, and as many of tenants
	Before int     `json:"series_before"` // with the real ones alone
	After  int     `json:"series_after"`
	Real   float64 `json:"real_share"` // of the requests for real models, those that are counted under their names
	Late   float64 `json:"late_share"` // the same, of a model that came in the middle of the flood
	Folded float64 `json:"folded"`     // requests that are counted under "other" for their model
	RSS    float64 `json:"rss_mib"`    // by how much the gateway's memory has grown
}

func (f *Flood) rows(t *bench.Table) {
	t.Add(fmt.Sprintf("series, before and after %d names", f.Names), fmt.Sprintf("%d, %d", f.Before, f.After))
	t.Add("requests under their model's name: real, late", fmt.Sprintf("%.3f, %.3f", f.Real, f.Late))
	t.Add("folded; memory of the gateway, MiB", fmt.Sprintf("%.0f; +%.1f", f.Folded, f.RSS))
}

const (
	lateModel = "late-model"
	realEvery = 7 // every seventh request is for a real model
)

// flood plays requests for made-up models, and real ones between them.
func flood(ctx context.Context, names int) (_ *Flood, err error) {
	c := vllmsim.DefaultConfig()
	c.Instant, c.OutputTokens = true, 5
	st, err := start(ctx, c, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	f := &Flood{Names: names}
	if err := st.send(ctx, 700, func(i int) string { return models[i%len(models)] }); err != nil {
		return nil, err
	}
	before, err := st.readPage(ctx)
	if err != nil {
		return nil, err
	}
	rss, err := st.gateway.RSS()
	if err != nil {
		return nil, err
	}
	var real, late atomic.Int64
	if err := st.send(ctx, names, func(i int) string {
		switch {
		case i%realEvery > 0:
			return "made-up-" + strconv.Itoa(i)
		case i > names/2 && i%2 == 0:
			late.Add(1)
			return lateModel
		}
		real.Add(1)
		return models[i%len(models)]
	}); err != nil {
		return nil, err
	}
	after, err := st.readPage(ctx)
	if err != nil {
		return nil, err
	}
	grown, err := st.gateway.RSS()
	f.Before, f.After, f.RSS = len(before), len(after), float64(grown-rss)/(1<<20)
	for _, m := range models {
		label := `model="` + m + `"`
		f.Real += after.sum("warmgate_requests_total", label) - before.sum("warmgate_requests_total", label)
	}
	f.Real /= float64(real.Load())
	f.Late = after.sum("warmgate_requests_total", `model="`+lateModel+`"`) / float64(late.Load())
	f.Folded = after.sum("warmgate_folded_requests_total", `kind="model"`)
	return f, err
}

// send sends n requests, a few at a time, for models by their number, each as a tenant that somebody has made up.
func (st *stage) send(ctx context.Context, n int, model func(i int) string) error {
	client := loadgen.NewClient(loadgen.Options{URL: st.gateway.URL() + compare.Path})
	defer client.Close()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range 9 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				q := loadgen.Request{Header: http.Header{"x-tenant": {"made-up-" + strconv.Itoa(i)}}}
				q.Body, _ = loadgen.ChatBody(model(i), "Hello", 5, false) // texts always marshal
				if s := client.Do(ctx, &q, time.Now()); !s.OK() {
					failed.Add(1)
				}
			}
		}()
	}
	all.Wait()
	if failed.Load() > 0 {
		return fmt.Errorf("%d of %d requests failed", failed.Load(), n)
	}
	return ctx.Err()
}
