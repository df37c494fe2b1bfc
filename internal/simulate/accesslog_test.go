package simulate

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/lb/prompt"
)

// logging is a load of which the lines of the access log are kept.
type logging struct {
	Load
	cutter cutter
	seen   map[uint64]bool // blocks of earlier prompts
	Lines  []accesslog.Request
	of     map[*Request]int
}

// Logging returns the load, with seed 1.
func Logging(of *Sessions) *logging {
	return &logging{Load: of.New(1), cutter: cutter{size: 512}, seen: map[uint64]bool{}, of: map[*Request]int{}}
}

func (l *logging) Send(now time.Duration, number int) *Request {
	r := l.Load.Send(now, number)
	if r == nil {
		return nil
	}
	line := accesslog.Request{Start: time.Unix(0, 0).Add(now), Status: 200, Reason: "chosen", Output: r.Answer}
	blocks, bytes := l.cutter.cut(r)
	known := 0
	for i, b := range blocks {
		if l.seen[b.Key] {
			known = i + 1
		}
		l.seen[b.Key] = true
	}
	line.Bytes = bytes
	line.Marks, _ = prompt.ParseFingerprint(string(prompt.AppendFingerprint(nil, blocks, known)))
	l.of[r] = len(l.Lines)
	l.Lines = append(l.Lines, line)
	return r
}

func (l *logging) Ended(now time.Duration, number int, r *Request, served bool) {
	line := &l.Lines[l.of[r]]
	line.Duration, line.Prefill, line.Wait = now-r.sent, r.first-r.placed, r.placed-r.sent
	line.Host, line.Cached, line.Prompt = strconv.Itoa(int(r.server)), r.call.Cached(), r.call.PromptTokens()
	l.Load.Ended(now, number, r, served)
}

// A replay of an access log is like the load that was logged: as much of the prompts is cached, and first tokens take
// as long.
func TestReplayOfALog(t *testing.T) {
	for _, policy := range []string{"round_robin", "ring_hash", "prefix_cache"} {
		c, err := OfPolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		described := Sessions{
			Users: 60, Requests: 4000, Prompts: 5, System: 2000, Turns: 6, Question: 200, Answer: 150,
			Think: 8 * time.Second,
		}
		l := Logging(&described)
		real, err := Run(l, Alike(3, DefaultEngine()), c, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		log := FromLog(l.Lines)
		if log.Unsized+log.Alone+log.Estimated > 0 || len(log.Requests) != 4000 {
			t.Fatalf("%d requests, %+v", len(log.Requests), log)
		}
		replayed, err := Run(log.Recording().New(1), Alike(3, DefaultEngine()), c, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: cached %.3f, replayed %.3f; TTFT %.3f s, replayed %.3f", policy, real.Cached, replayed.Cached,
			real.TTFT.P50, replayed.TTFT.P50)
		if math.Abs(real.Cached-replayed.Cached) > 0.01 || math.Abs(replayed.TTFT.P50/real.TTFT.P50-1) > 0.05 {
			t.Errorf("%s: cached %.3f, replayed %.3f; TTFT %.3f s, replayed %.3f", policy, real.Cached, replayed.Cached,
				real.TTFT.P50, replayed.TTFT.P50)
		}
	}
}

// What a line does not say is taken from the others, or the request is left out.
func TestLogWithGaps(t *testing.T) {
	at := time.Unix(0, 0)
	log := FromLog([]accesslog.Request{
		{Start: at, Status: 200, Model: "m", Prompt: 300, Output: 50, Bytes: 900, Session: 7},
		{Start: at.Add(time.Second), Status: 200, Reason: "disabled"},
		{Start: at.Add(2 * time.Second), Status: 429, Bytes: 600, Session: 7},
		{Start: at.Add(3 * time.Second), Status: 200, Prompt: 80, Output: 20, Estimated: true},
	})
	if log.Unsized != 1 || log.Estimated != 2 || log.Alone != 3 || len(log.Requests) != 3 {
		t.Fatalf("%+v", log)
	}
	refused, guessed := &log.Requests[1], &log.Requests[2]
	if refused.Prompt[0].Tokens != 200 || refused.Answer != 50 || refused.Session != log.Requests[0].Session ||
		refused.At != 2*time.Second {
		t.Errorf("%+v", refused)
	}
	if guessed.Prompt[0].Tokens != 80 || guessed.Answer != 20 || guessed.Session == refused.Session {
		t.Errorf("%+v", guessed)
	}
}

// Blocks that no prompt has shown together are in order all the same.
func TestForestJoinsWhatPromptsShow(t *testing.T) {
	mark := func(number, end int) prompt.Mark { return prompt.Mark{Number: number, Key: uint32(number), End: end} }
	f := forest{blocks: map[blockName]*logBlock{}}
	f.plant([]prompt.Mark{mark(1, 100), mark(9, 900)})
	f.plant([]prompt.Mark{mark(3, 300), mark(9, 950)})
	f.plant([]prompt.Mark{mark(5, 500), mark(9, 900), mark(11, 1100)})
	f.grow()
	var ends []int
	for _, b := range f.path(mark(11, 0)) {
		ends = append(ends, b.end)
	}
	if !slices.Equal(ends, []int{100, 300, 500, 900, 1100}) || f.blocks[blockName{9, 9}].answered != 950 {
		t.Errorf("%v", ends)
	}
}
