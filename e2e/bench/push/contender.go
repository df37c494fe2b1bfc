package push

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/placement"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/lb/push"
)

// Names of the contenders in the last line of the output.
const (
	blindName       = "blind"
	outstandingName = "outstanding" // and the cap
	ownName         = "pending"
)

// contender is one way to hand requests over.
type contender struct {
	router.Contender
	limit placement.Maker // plays in simulated time; nil = does not
	cap   int             // of push: outstanding
}

func (c contender) title() string { return c.Name() }

func contenderOf(c *contender) *router.Contender { return &c.Contender }

// contenders returns all, in the order of the table, with push: outstanding at each of the caps, and push: pending with
// each push_ahead as well.
//
// vLLM's router is there tuned as well, with thresholds for servers of a few dozen slots: by default it evens out those
// that are 64 requests apart.
func contenders(caps, ahead []int) []contender {
	list := []contender{
		{Contender: router.By(compare.RoundRobin)},
		{Contender: router.By(compare.LeastRequest)},
		{Contender: router.Behind(router.VLLM(), "")},
		{Contender: router.Behind(router.VLLM(), " tuned", "--balance-abs-threshold", "4",
			"--balance-rel-threshold", "1.1")},
		own(blindName, "", false),
	}
	for _, most := range caps {
		c := own(fmt.Sprintf("%s %d", outstandingName, most),
			fmt.Sprintf(`"push":"outstanding","max_inflight":%d,%s`, most, queue("")), false)
		c.cap = most
		list = append(list, c)
	}
	list = append(list, pending(ownName, "", "", true))
	for _, c := range []contender{
		pending(ownName+" skip 100", "", `,"skip":100`, true),
		pending(ownName+" no metrics", "", "", false),
	} {
		c.Added = true
		list = append(list, c)
	}
	for _, n := range ahead {
		c := pending(fmt.Sprintf("%s ahead %d", ownName, n), fmt.Sprintf(`"push_ahead":%d,`, n), "", true)
		c.Added = true
		list = append(list, c)
	}
	return append(list, limits()...)
}

// queue returns the settings of the queue, with more of them, if any.
func queue(more string) string { return `"queue":{"max_wait":"30s"` + more + `},` }

// pending is push: pending, with more settings of it and of the queue, and with or without the servers' metrics.
func pending(name, more, ofQueue string, metrics bool) contender {
	return own(name, `"push":"pending",`+more+queue(ofQueue), metrics)
}

// own is prefix_cache with more settings. Each has a secret, and with it an index, of its own: one that has seen the
// prompts of the contender before would know where those went.
func own(name, more string, metrics bool) contender {
	engines := ""
	if metrics {
		engines = compare.ByMetrics
	}
	more += `"prefix":{"secret":"bench-push-` + strings.ReplaceAll(name, " ", "-") + `"},`
	return contender{Contender: router.By(compare.Plugin(name, "prefix_cache", more, engines))}
}

// play has the contender send the scripts to the servers of the stage, whose caches and counts are emptied before.
func (c *contender) play(ctx context.Context, stage *compare.Stage, w *workload, scripts []traffic.Script) (
	r result, err error,
) {
	if c.limit != nil {
		return foreseen(w, scripts, c.limit), nil
	}
	err = c.Meet(ctx, stage, "", func(client *loadgen.Client) error {
		p := scripted.Player{Client: client}
		var samples []loadgen.Sample
		used, err := bench.Use(nil, func() { samples = p.Play(ctx, scripts, w.clients) })
		if err != nil {
			return err
		}
		r = resultOf(samples, windowOf(p.Begins, w.warm), stage)
		r.cpu = used.Machine
		return c.Policy.Steered(samples)
	})
	return r, err
}

// Names of what plays in simulated time.
const (
	simulatedBlind       = "simulated " + blindName
	simulatedOutstanding = "simulated " + outstandingName + " 12"
	limitPrefix          = "limit "
)

// limits are not gateways but what is left to win: schedules in simulated time that know everything, see
// [placement.Limit]. Beside them stands what is known from the gateway, to compare them with.
func limits() []contender {
	return []contender{
		{Contender: simulated(simulatedBlind), limit: placement.PrefixCacheWaiting(placement.Waiting{Skip: 32})},
		{Contender: simulated(simulatedOutstanding), limit: placement.PrefixCacheWaiting(placement.Waiting{
			Push: push.Outstanding, Cap: 12, Skip: 32, Metrics: true,
		})},
		{Contender: simulated(limitPrefix + "least delay"), limit: placement.Limit(placement.Foresight{
			Credit: 1, Memory: 1,
		})},
		{Contender: simulated(limitPrefix + "warmest server"), limit: placement.Limit(placement.Foresight{
			Loyal: true, Credit: 2, Memory: 0.85,
		})},
		{Contender: simulated(limitPrefix + "oldest tree"), limit: placement.Limit(placement.Foresight{
			Trees: true, Loyal: true, Credit: 1, Memory: 1,
		})},
	}
}

func simulated(name string) router.Contender {
	about := "in simulated time, without a gateway"
	if strings.HasPrefix(name, limitPrefix) {
		about += ", what is left to win: a schedule that knows all caches and all lengths"
	}
	return router.Contender{Policy: compare.Policy{Name: name, About: about}, Added: true}
}

// foreseen plays the scripts in simulated time.
func foreseen(w *workload, scripts []traffic.Script, maker placement.Maker) (r result) {
	model := placement.Workload{
		Name: w.name, Servers: servers, Server: w.server, Full: w.clients,
		Scripts: func(uint64) []traffic.Script { return scripts },
	}
	played, served := model.Prepare(0).Play(1, maker)
	begins := make([]time.Duration, len(scripts))
	for i := range begins {
		begins[i] = played.Took
	}
	var samples []loadgen.Sample
	for _, s := range served {
		begins[s.Script] = min(begins[s.Script], s.Sent)
		samples = append(samples, loadgen.Sample{
			Due: s.Sent, Sent: s.Sent, Status: http.StatusOK, TTFT: s.First - s.Sent, Total: s.Last - s.Sent,
			Tokens: s.Answer, Endpoint: strconv.Itoa(s.Server),
			Usage: loadgen.Usage{Prompt: s.Prompt, Cached: s.Cached, Completion: s.Answer},
		})
	}
	r.Figures = windowOf(begins, w.warm).Figures(samples)
	r.uneven, r.preemptions = r.Uneven(servers), float64(played.Preempted)
	return r
}
