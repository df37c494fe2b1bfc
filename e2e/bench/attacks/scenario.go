package attacks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const (
	chatPath     = "/v1/chat/completions"
	messagesPath = "/v1/messages"
	modelName    = "sim"
	// mayHold is the cap of the scenario that has one, max_inflight.
	mayHold = 4
	// honestClients is the number of honest clients, each with an address of its own.
	honestClients = 7
)

// scenario is a configuration of the gateway, its servers and its honest traffic.
type scenario struct {
	name     string
	plugin   string
	servers  int
	share    float64 // of settings.load that the honest traffic has
	path     string  // that requests go to
	talks    bool    // honest clients have conversations, else single questions
	redis    bool    // counts are in Redis
	lenient  bool    // the servers take bodies as Python's parser does
	capacity int     // requests that a server may hold at most, 0 for no cap
}

// scenarios are all there are.
var scenarios = []*scenario{
	{
		name: "tokens", servers: 8, share: 1, path: chatPath,
		plugin: plugin("global_least_request", `"unit":"tokens",`, ""),
	},
	{
		name: "prefix", servers: 8, share: 1, path: chatPath, talks: true,
		plugin: plugin("prefix_cache", "", ""),
	},
	{
		name: "requests", servers: 8, share: 1, path: chatPath,
		plugin: plugin("global_least_request", "", ""),
	},
	{
		name: "four", servers: 4, share: 0.7, path: chatPath,
		plugin: plugin("global_least_request", "", ""),
	},
	{
		name: "cap", servers: 8, share: 0.45, path: chatPath,
		lenient: true, capacity: mayHold,
		plugin: plugin("global_least_request", fmt.Sprintf(`"unit":"tokens","max_inflight":%d,`, mayHold), ""),
	},
	{
		name: "messages", servers: 8, share: 1, path: messagesPath, talks: true,
		plugin: plugin("prefix_cache", "", ""),
	},
	{
		name: "redis", servers: 8, share: 1, path: chatPath,
		redis:  true,
		plugin: plugin("global_least_request", "", compare.InRedis),
	},
}

// batches are the scenarios that are played at the same time, one batch after the other. Redis has little beside it,
// because its times are by the clock.
var batches = [][]string{{"tokens"}, {"prefix"}, {"requests"}, {"messages", "four", "cap"}, {"redis"}}

// plugin returns a configuration; more are members of lb_config and envoy of its part envoy.
func plugin(policy, more, envoy string) string { return compare.Plugin("", policy, more, envoy).Plugin }

func scenarioOf(name string) *scenario {
	i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
	return scenarios[i]
}

// stopsAfter is the length in tokens at which the model ends an answer: more than any honest answer has.
const stopsAfter = 25

// engine is what all servers have in common: eight sequences at once, and steps so long that what this machine adds is
// negligible.
func engine() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued, c.NumBlocks = 8, -1, 4096
	c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS = 3, 0.02
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 79, 0.7
	c.Tuning.AnswerTokens, c.Tuning.BodyTimeoutMS = stopsAfter, 0
	return c
}

// answers are the lengths of honest answers: half a second to two seconds.
var answers = loadgen.LogNormal{Median: 11, Sigma: 0.35, Min: 6, Max: stopsAfter - 2}

// prompts are the lengths of single questions.
var prompts = loadgen.LogNormal{Median: 130, Sigma: 0.6, Min: 24, Max: 700}

// honest is one request of an honest client.
type honest struct {
	loadgen.Request
	client int
}

// traffic returns the honest requests of a scenario, the same ones for the same seed.
func (sc *scenario) traffic(s settings, seed uint64) ([]honest, error) {
	span := s.warm + s.span
	w := loadgen.Workload{Seed: seed, Model: modelName, Stream: sc.path == chatPath, Prompt: prompts, Output: answers}
	servers := slices.Repeat([]vllmsim.Config{engine()}, sc.servers)
	if sc.talks {
		typical, err := compare.Typical(w)
		if err != nil {
			return nil, err
		}
		return sc.conversations(seed, sc.share*s.load*compare.Capacity(servers, typical), span)
	}
	reqs, err := compare.AtLoad(w, servers, sc.share*s.load, span)
	if err != nil {
		return nil, err
	}
	out := make([]honest, len(reqs))
	for i := range reqs {
		out[i] = honest{reqs[i], i % honestClients}
	}
	return out, nil
}

const (
	talkTurns = 5
	talkGap   = 2900 * time.Millisecond // between two turns of a conversation, half of it up or down
)

// conversations returns turns of conversations that arrive at the given rate. Answers that go back are made up, so that
// turns need not wait for each other. Those that have begun before the first request have their earlier turns left out.
func (sc *scenario) conversations(seed uint64, rate float64, span time.Duration) ([]honest, error) {
	r := rand.New(rand.NewPCG(seed, 0x74616c6b))
	var out []honest
	due := -talkGap * (talkTurns - 1)
	for talk := 0; due < span; talk++ {
		messages := []loadgen.Message{{Role: "user", Content: loadgen.Text(r, 170+r.IntN(60))}}
		at := due
		for range talkTurns {
			tokens := answers.Draw(r)
			body, err := loadgen.ConversationBody(modelName, messages, tokens, sc.path == chatPath)
			if err != nil {
				return nil, err
			}
			if at >= 0 && at < span {
				out = append(out, honest{loadgen.Request{
					Due: at, Body: body, Model: modelName, Stream: sc.path == chatPath, MaxTokens: tokens,
				}, talk % honestClients})
			}
			messages = append(messages, loadgen.Message{Role: "assistant", Content: loadgen.Text(r, 37)},
				loadgen.Message{Role: "user", Content: loadgen.Text(r, 40+r.IntN(45))})
			at += talkGap/2 + time.Duration(r.Int64N(int64(talkGap)))
		}
		due += time.Duration(r.ExpFloat64() * float64(time.Second) * talkTurns / rate)
	}
	slices.SortFunc(out, func(a, b honest) int { return cmp.Compare(a.Due, b.Due) })
	for i := range out {
		out[i].ID = i
	}
	return out, nil
}
