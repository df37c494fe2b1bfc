package streamtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/prefixindex"
)

// prefixScenarios are those of prefix_cache.
var prefixScenarios = []scenario{
	{name: "a conversation stays", policy: prefixCache, endpoints: 3, run: staysWithTheConversation},
	{name: "what is cached is no work", policy: prefixCache, endpoints: 2, config: `"output_tokens":100`, run: func(t *run) {
		var work [2]int64
		for i := range work {
			work[i] = t.weigh(t.conversation(1))
		}
		if work[0] < 1000 || work[1] < 100 || work[1] > 150 {
			t.Errorf("%d tokens in flight, then %d for the same prompt; want over 1000, then little more than 100",
				work[0], work[1])
		}
		t.wantDrained()
	}},
	{name: "only where it is cached", policy: prefixCache, endpoints: 2, config: `"prefix":{"if_available_tokens":500}`, run: onlyCached},
	{name: "load outweighs what is cached", policy: prefixCache, endpoints: 2, run: func(t *run) {
		first := t.play(t.conversation(1))
		busy := []*stream{t.begin(work(t, 20000))}
		if busy[0].Upstream() != first.Upstream() {
			busy = append(busy, t.begin(work(t, 40000)))
		}
		away := t.begin(t.conversation(1, 2))
		if away.Upstream() == first.Upstream() {
			t.Error("the conversation waits behind more work than its prompt is")
		}
		t.finish(append(busy, away)...)
		t.wantDrained()
	}},
	{name: "tenants share nothing", policy: prefixCache, endpoints: 1, config: `"prefix":{"tenant_header":"X-Tenant"}`, run: func(t *run) {
		for _, c := range []struct {
			tenant string
			known  bool
		}{{"a", false}, {"b", false}, {"a", true}, {"b", true}, {"", false}, {"a,b", false}, {"", true}} {
			r := t.conversation(1)
			if c.tenant != "" {
				r.Headers = [][2]string{{"x-tenant", c.tenant}}
			}
			s := t.play(r)
			if match := s.match(); (match > 0) != c.known {
				t.Errorf("tenant %q: %v of the prompt is assumed to be cached", c.tenant, match)
			}
		}
	}},
	{name: "a failure is not cached", policy: prefixCache, endpoints: 1, run: func(t *run) {
		r := t.conversation(1)
		r.NoRetry = true
		s := t.begin(r)
		s.reply(500, "")
		t.wantDrained() // the plugin knows of the end
		again := t.play(r)
		if match := again.match(); match != 0 {
			t.Errorf("%v of the prompt is assumed to be cached where it failed", match)
		}
		t.wantDrained()
		last := t.play(r)
		if match := last.match(); match < 0.9 {
			t.Errorf("%v of the prompt is assumed to be cached where it was answered", match)
		}
		t.wantDrained()
	}},
	{name: "a retry takes the conversation along", policy: prefixCache, endpoints: 3, run: func(t *run) {
		s := t.begin(t.conversation(1))
		moved := s.Retry()
		t.finish(s)
		t.wantDrained()
		next := t.play(t.conversation(1, 2))
		if match := next.match(); next.Upstream() != moved || match < 0.4 {
			t.Errorf("the next turn goes to %d with %v of the prompt cached; the previous one was served by %d",
				next.Upstream(), match, moved)
		}
		t.wantDrained()
	}},
	{name: "a retry that fails is not cached", policy: prefixCache, endpoints: 3, run: func(t *run) {
		s := t.begin(t.conversation(1))
		s.Retry()
		s.Head(200)
		s.ResetByUpstream()
		s.Result()
		t.wantDrained()
		again := t.play(t.conversation(1))
		if match := again.match(); match != 0 {
			t.Errorf("%v of the prompt is assumed to be cached although it failed everywhere", match)
		}
		t.wantDrained()
	}},
	{name: "usage is counted and learned", policy: prefixCache, endpoints: 1, config: `"output_tokens":250`, run: func(t *run) {
		const prompt, cached, expected = "warmgate_prompt_tokens_total", "warmgate_cached_tokens_total",
			"warmgate_expected_cached_tokens_total"
		t.mark(prompt, cached, expected)
		for i, usage := range []string{
			`{"usage":{"prompt_tokens":500,"completion_tokens":70,"prompt_tokens_details":{"cached_tokens":0}}}`,
			"data: {\"choices\":[]}\n\n" +
				`data: {"usage":{"prompt_tokens":500,"completion_tokens":70,"prompt_tokens_details":{"cached_tokens":496}}}` +
				"\n\ndata: [DONE]\n\n",
		} {
			s := t.begin(t.conversation(1))
			var work int64
			t.Await(func() bool { work = t.Load(0).Tokens; return work > 0 })
			if i == 1 && t.Lacks(PickWorker) == "" && (work < 70 || work > 80) { // each worker learns for itself
				t.Errorf("%d tokens in flight, want little more than the 70 of the answer before", work)
			}
			s.Head(200)
			s.Data(usage[:len(usage)/2])
			s.Data(usage[len(usage)/2:])
			t.finish(s)
			t.wantDrained()
		}
		t.wantGrown(prompt, 1000)
		t.wantGrown(cached, 496)
		if got := t.grown(expected); got < 480 || got > 500 {
			t.Errorf("%d tokens were expected to be cached, want nearly 500", got)
		}
	}},
	{
		name: "a slower server gets less, streams", policy: prefixCache, endpoints: 2,
		needs: []Ability{SimulatedTime}, run: func(t *run) { slowerGetsLess(t, true) },
	},
	{
		name: "a slower server gets less, answers in one piece", policy: prefixCache, endpoints: 2,
		needs: []Ability{SimulatedTime}, run: func(t *run) { slowerGetsLess(t, false) },
	},
	{
		name: "who is late gets less of those who ask", policy: prefixCache, endpoints: 2, config: `"slo":{"tpot":"1s"}`,
		needs: []Ability{SimulatedTime}, run: lateGetsLess,
	},
	{
		name: "an engine restarts", policy: prefixCache, endpoints: 2, config: often, needs: []Ability{RecordTime},
		run: engineRestarts,
	},
	{name: "names behind a long prompt", policy: prefixCache, endpoints: 1, config: `"max_inspect_bytes":4096,"body_timeout":"60s"`, run: func(t *run) {
		for _, tools := range []string{"one", "other"} {
			for i, wanted := range []bool{false, true, false} {
				r := longConversation(t, tools, []string{"a", "a", "b"}[i])
				s := t.begin(r)
				s.wantReceived(strings.Join(r.Frames, ""))
				t.finish(s)
				if match := s.match(); match > 0.01 != wanted {
					t.Errorf("request %d with tools %s: %.2f are matched", i, tools, match)
				}
				t.wantDrained()
			}
		}
	}},
	{name: "a body larger than any buffer, prompts", policy: prefixCache, endpoints: 2, run: (*run).sendLarge},
	{name: "a long body that pauses", policy: prefixCache, endpoints: 1, config: `"max_inspect_bytes":4096`, needs: []Ability{NewestFrame}, run: func(t *run) {
		r := longConversation(t, "tools", "a")
		s := t.Open(Request{Frames: r.Frames[:3], Unended: true})
		t.Advance(2 * time.Second)
		s.wantSent()
		s.Send(r.Frames[3], false)
		s.Send(r.Frames[4], true)
		s.wantReceived(strings.Join(r.Frames, ""))
		t.finish(s)
		t.wantDrained()
	}},
	{name: "a prompt that was seen in part", policy: prefixCache, endpoints: 1, config: `"max_inspect_bytes":4096`, run: func(t *run) {
		const expected = "warmgate_expected_cached_tokens_total"
		t.mark(expected)
		for range 3 {
			t.answer(t.conversation(1, 2, 3), `{"usage":{"prompt_tokens":3000,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":800}}}`)
		}
		t.wantGrown(expected, 0)
	}},
	{name: "an answer that is encoded", policy: prefixCache, endpoints: 1, run: func(t *run) {
		const encoded, prompt = "warmgate_usage_encoded_total", "warmgate_prompt_tokens_total"
		t.mark(encoded, prompt)
		for _, encoding := range []string{"gzip", "identity"} {
			s := t.begin(t.conversation(1))
			s.Head(200, [2]string{"content-encoding", encoding})
			s.Data(`{"usage":{"prompt_tokens":500,"completion_tokens":9}}`) // plain in both, so that it could be read
			t.finish(s)
		}
		t.wantGrown(encoded, 1)
		t.wantGrown(prompt, 500)
	}},
	{name: "an answer that breaks off", policy: prefixCache, endpoints: 1, run: func(t *run) {
		const expected = "warmgate_expected_cached_tokens_total"
		t.answer(t.conversation(1), `{"usage":{"prompt_tokens":500,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":400}}}`)
		t.mark(expected)
		for range 3 {
			s := t.begin(t.conversation(1))
			s.Head(200)
			s.Data("data: {\"usage\":{\"prompt_tokens\":500,\"completion_tokens\":1}}\n\n")
			s.ResetByClient()
			t.wantDrained()
		}
		t.wantGrown(expected, 0)
	}},
	{name: "answers without usage affect no other API", policy: prefixCache, endpoints: 1, run: func(t *run) {
		const reported = `{"usage":{"prompt_tokens":500,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":490}}}`
		for range 2 * t.Workers() {
			t.answer(t.conversation(1), reported)
		}
		messages := t.conversation(1)
		messages.Path = "/v1/messages"
		for range 40 {
			t.answer(messages, `{"usage":{"input_tokens":500,"output_tokens":9}}`)
		}
		if match := t.answer(t.conversation(1), reported).match(); match < 0.9 {
			t.Errorf("%v of the prompt is assumed to be cached, want all", match)
		}
	}},
	{name: "a prompt that cannot be read", policy: prefixCache, endpoints: 2, run: func(t *run) {
		t.mark(decisionsOf(prefixCache, "body_malformed"), decisionsOf(prefixCache, "body_ambiguous"),
			decisionsOf(prefixCache, "chosen"))
		for _, body := range []string{"{", `{"prompt":"a","prompt":"b"}`, "{}"} {
			t.play(Request{Frames: []string{body}})
		}
		t.play(Request{})
		t.wantGrown(decisionsOf(prefixCache, "body_malformed"), 1)
		t.wantGrown(decisionsOf(prefixCache, "body_ambiguous"), 1)
		t.wantGrown(decisionsOf(prefixCache, "chosen"), 2)
		t.wantDrained()
	}},
}

// longConversation is a request with a long prompt and, behind it, its tools, a salt and the model.
func longConversation(t *run, tools, salt string) Request {
	turn := `{"role":"user","content":"` + strings.Repeat(t.Name()+" goes on", 300) + `"}`
	return Request{Frames: []string{
		`{"messages":[` + turn, "," + turn, "," + turn, "," + turn,
		`],"tools":[{"name":"` + tools + `"}],"cache_salt":"` + salt + `","model":"` + t.Name() + `"}`,
	}}
}

// work is a request of the scenario's model with a prompt of so many tokens, which begins like no other.
func work(t *run, tokens int) Request {
	return Request{Frames: []string{fmt.Sprintf(`{"model":%q,"prompt":"%d %s"}`, t.Name(), tokens, strings.Repeat("work", tokens))}}
}

// slowerGetsLess has one server take five times as long for a token: nearly all requests go to the other one, though
// both are idle whenever one comes. The first worker learns that, and another goes by it.
func slowerGetsLess(t *run, streams bool) {
	const tokens, requests = 20, 80
	slow := 0 // of the latter half
	for i := range requests {
		r := work(t, 40+i)
		r.Worker = i / (requests / 2) * (t.Workers() - 1)
		s := t.begin(r)
		each := 10 * time.Millisecond
		if s.Upstream() == 1 {
			each *= 5
			if i >= requests/2 {
				slow++
			}
		}
		if streams {
			answerInParts(t, s, tokens, each)
		} else {
			t.Advance(2 * each * tokens) // long enough for a clock of ticks
			s.Head(200, [2]string{"content-type", "application/json"})
			s.Data(fmt.Sprintf(`{"choices":[{"text":"a","finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":99,"completion_tokens":%d}}`, 2*tokens))
		}
		t.finish(s)
		t.wantDrained()
	}
	if slow > requests/8 {
		t.Errorf("of %d requests %d went to a server that takes five times as long", requests/2, slow)
	}
}

// answerInParts answers with a stream of so many tokens, each of which takes some time.
func answerInParts(t *run, s *stream, tokens int, each time.Duration) {
	s.Head(200, [2]string{"content-type", eventStream})
	for range tokens {
		t.Advance(each)
		s.Data("data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
	}
	s.Data(fmt.Sprintf("data: {\"usage\":{\"prompt_tokens\":99,\"completion_tokens\":%d}}\n\n", tokens))
	s.Data("data: [DONE]\n\n")
}

// lateGetsLess has one server take a little longer for a token: requests whose header asks for less than that go to the
// other one, and the others to both.
func lateGetsLess(t *run) {
	const tokens, requests = 20, 60
	for _, target := range []string{"", "104"} {
		late := 0
		for i := range requests {
			r := work(t, 40+i)
			if r.Worker = i % t.Workers(); target != "" {
				r.Headers = append(r.Headers, [2]string{"x-slo-tpot-ms", target})
			}
			s := t.begin(r)
			each := 95 * time.Millisecond
			if s.Upstream() == 1 {
				each = 108 * time.Millisecond
				late++
			}
			answerInParts(t, s, tokens, each)
			t.finish(s)
			t.wantDrained()
		}
		if target == "" && late < requests/5 || target != "" && late > requests/4 {
			t.Errorf("of %d requests with target %q, %d went to a server that is slower", requests, target, late)
		}
	}
}

func staysWithTheConversation(t *run) {
	homes := map[int]int{}
	for seed := 1; seed <= 6; seed++ {
		homes[seed] = t.play(t.conversation(seed)).Upstream()
	}
	for seed, home := range homes {
		for turns := 2; turns <= 4; turns++ {
			seeds := []int{seed, 10, 20, 30}[:turns]
			r := t.conversation(seeds...)
			r.Worker = turns % t.Workers()
			s := t.play(r)
			want := float64(turns-1) / float64(turns)
			if match := s.match(); s.Upstream() != home || match < want-0.05 || match > want+0.05 {
				t.Errorf("conversation %d, turn %d: endpoint %d with %.2f of the prompt cached; want %d with %.2f",
					seed, turns, s.Upstream(), match, home, want)
			}
		}
	}
	t.wantDrained()
}

// engineRestarts: by the first page after its restart all that an engine had cached is forgotten, by all workers, and
// nothing that another one has.
func engineRestarts(t *run) {
	losses, homes := t.ofCluster("warmgate_prefix_losses_total"), map[int]int{}
	t.mark(losses)
	began := func(at string, busy int) string { return vllm(busy, "process_start_time_seconds "+at+"\n") }
	for idle := range 2 {
		t.SetPage(idle, began("1000", 0))
		t.SetPage(1-idle, began("1000", 12))
		until(t, "pages are read", chat(), 4, allAt(idle))
		for seed := 3 * idle; seed < 3*idle+3; seed++ {
			homes[seed] = t.play(t.conversation(seed)).Upstream()
		}
	}
	t.wantDrained()
	t.Advance(prefixindex.Tick) // what was sent within a tick of a loss counts as sent after it
	lost := homes[0]
	t.SetPage(1-lost, began("1000", 0))
	t.SetPage(lost, began("2000", 0))
	until(t, "the restart is seen", chat(), 4, func(*crowd) bool { return t.grown(losses) > 0 })
	t.Advance(time.Second) // in which all workers hear of it
	for seed, home := range homes {
		if match := t.play(t.conversation(seed)).match(); match > 0 == (home == lost) {
			t.Errorf("%v of a prompt that was sent to %d is assumed to be cached; %d has restarted", match, home, lost)
		}
	}
	t.wantGrown(losses, 1)
	t.wantDrained()
}
