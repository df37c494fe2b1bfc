package push

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/placement"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/lb/push"
)

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
