package prefix

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// Names of the contenders in the last line of the output.
const (
	roundRobinName = "round_robin"
	affinityName   = "block_xor"
	vllmRouterName = "vllm-router"
	sglangName     = "sglang-router"
	ownName        = "prefix_cache"
	lmetricName    = "lmetric"
	exactName      = "exact"
)

// contender is one way to find the server for a request.
type contender struct {
	router.Contender
	choose chooser // in the client, the gateway obeys; nil = the gateway chooses
	credit float64 // of exact; 0 = another contender, or exact with all its credits
}

func (c contender) title() string { return c.Name() }

func contenderOf(c *contender) *router.Contender { return &c.Contender }

// chooser returns what chooses the server for each request of a run.
type chooser func(stage *compare.Stage, w *workload) func(q *scripted.Question) (server int, u scripted.UnderWay)

var ringHash = compare.RingHash(scripted.SessionHeader)

// obedient returns a policy by which the gateway sends each request to the endpoint that the client names.
func obedient(name, about string) compare.Policy {
	return compare.Policy{
		Name: name, Cluster: harness.Warmgate,
		About: about +
			": chosen in the client at no cost, the gateway sends the request to the endpoint that the client names",
		Edits: `warmgate.yaml: {"resources[name=warmgate].typed_config.mutations": {request_mutations: [{append: {
  header: {key: x-gateway-destination-endpoint, value: "%REQ(` + scripted.EndpointHeader + `)%"},
  append_action: OVERWRITE_IF_EXISTS_OR_ADD}}]}}`,
	}
}

const (
	affinityAbout = "affinity by XOR-combined SHA-1 blocks, cut after each user message, " +
		"without regard to load when a beginning is known (else the fewest in flight)"
	lmetricAbout = "the lowest product of the tokens that a server has not cached, by an exact index, and its " +
		"requests with this one"
	exactAbout = "prefix_cache with what the servers' KV caches hold at this moment or are about to, " +
		"exact tokens of prompts and answers, by the credit that has the lowest mean TTFT on the workload"
)

// contenders returns all, in the order of the table.
func contenders() []contender {
	counts := compare.Warmgate
	counts.Name = "global_least_request"
	return []contender{
		{Contender: router.By(compare.RoundRobin)},
		{Contender: router.By(compare.LeastRequest)},
		{Contender: router.By(ringHash)},
		{Contender: router.By(counts)},
		{Contender: router.By(obedient(affinityName, affinityAbout)), choose: byXOR},
		{Contender: router.Behind(router.VLLM(), "")},
		{Contender: router.Behind(router.SGLang(), "")},
		{Contender: router.By(obedient(lmetricName, lmetricAbout)), choose: byLMetric},
		{Contender: router.By(compare.PrefixCache)},
		{Contender: router.By(obedient(exactName, exactAbout))},
	}
}

// byXOR chooses as blockXOR does.
func byXOR(stage *compare.Stage, _ *workload) func(*scripted.Question) (int, scripted.UnderWay) {
	x := newBlockXOR(len(stage.Servers))
	return func(q *scripted.Question) (int, scripted.UnderWay) {
		server, done := x.choose(q.Messages)
		return server, scripted.UnderWay{Done: done}
	}
}

// redisSuffix is what the name of a policy with counts and index in Redis ends with.
const redisSuffix = "_redis"

// inRedis returns the contender with counts and index in Redis.
func (c *contender) inRedis() contender {
	const local = `"admin_cluster":"warmgate-admin"`
	out := *c
	out.Policy.Name, out.Added = c.Name()+redisSuffix, true
	out.Policy.Plugin = strings.Replace(c.Policy.Plugin, local, local+compare.InRedis, 1)
	return out
}

// counted returns an error if a contender that uses Redis, and has been played, left nothing there: it has fallen back
// to the store in the gateway.
func (c *contender) counted(server *redisserver.Server) error {
	if server == nil || !strings.Contains(c.Policy.Plugin, `"redis_cluster"`) {
		return nil
	}
	keys, err := server.Do("DBSIZE")
	if err == nil && keys.Integer() == 0 {
		err = fmt.Errorf("%s: Redis has no keys", c.Name())
	}
	return err
}

// with returns exact with a credit.
func (c *contender) with(credit float64) contender {
	out := *c
	out.Policy.Name, out.credit = fmt.Sprintf("%s credit %v", c.Name(), credit), credit
	out.choose = func(stage *compare.Stage, w *workload) func(*scripted.Question) (int, scripted.UnderWay) {
		return newExact(stage, w, credit).choose
	}
	return out
}

// play has the contender send the scripts to the servers of the stage, whose caches and counts are emptied before.
func (c *contender) play(ctx context.Context, stage *compare.Stage, w *workload,
	scripts []script,
) (r result, err error) {
	err = c.Meet(ctx, stage, w.path(), func(client *loadgen.Client) error {
		p := scripted.Player{Client: client, Plain: w.plain, Warm: w.warm, Choose: c.chooseAddr(stage, w)}
		play := p.Play
		if w.inTurns {
			play = p.InTurns
		}
		r = resultOf(play(ctx, scripts, w.users), len(stage.Servers))
		return nil
	})
	return r, err
}

// chooseAddr returns what names the server of each request to the gateway; nil if the gateway chooses.
func (c *contender) chooseAddr(stage *compare.Stage, w *workload) func(*scripted.Question) (string, scripted.UnderWay) {
	if c.choose == nil {
		return nil
	}
	choose := c.choose(stage, w)
	return func(q *scripted.Question) (string, scripted.UnderWay) {
		server, u := choose(q)
		return stage.Servers[server].Addr(), u
	}
}

// result is what one contender did with one workload.
type result struct {
	scripted.Figures
	uneven     float64 // requests of the busiest server over the mean of all
	token      float64 // ms between two tokens of an answer, the mean of all answers
	prediction prediction
}

// resultOf reduces the samples of a play on n servers.
func resultOf(samples []loadgen.Sample, n int) result {
	r := result{
		Figures: scripted.Window{To: math.MaxInt64}.Figures(samples), prediction: scripted.PredictionOf(samples),
	}
	r.uneven = r.Uneven(n)
	r.token = betweenTokens(samples)
	return r
}

// betweenTokens returns the mean over all answers of the time between two of its tokens, in ms.
func betweenTokens(samples []loadgen.Sample) float64 {
	sum, n := 0.0, 0
	for i := range samples {
		if s := &samples[i]; s.OK() && s.Tokens > 1 && s.TTFT > 0 {
			sum += bench.MS(s.Total-s.TTFT) / float64(s.Tokens-1)
			n++
		}
	}
	return sum / float64(max(1, n))
}
