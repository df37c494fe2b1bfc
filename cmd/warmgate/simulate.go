package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/outcome"
	"github.com/warmgate/warmgate/internal/simulate"
)

// simulation is what the flags of simulate say.
type simulation struct {
	output, html string
	policies     []string
	configs      []string
	endpoints    []int
	price        float64
	seed         uint64
	within       time.Duration

	trace    string
	speed    float64
	sessions simulate.Sessions
	server   server
}

// usualPolicies are those that are compared unless others are named.
var usualPolicies = []string{"round_robin", "least_request", "global_least_request", "prefix_cache"}

func newSimulate() *cobra.Command {
	s := &simulation{
		sessions: simulate.Sessions{
			Users: 50, Requests: 10_000, Prompts: 4, System: 3000, Turns: 6, Question: 200, Answer: 200,
			Think: 8 * time.Second,
		},
		server: usualServer(), speed: 1,
	}
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Replay a load against simulated servers, with the plugin's policies",
		Long: `Replay a load against simulated model servers in virtual time, with the policies and the embedded store of the plugin:
to compare policies and settings, and to see how many servers a load needs.

The load is described (--sessions and what follows it), or is that of a gateway's access log, or of a trace in
Mooncake's form (--trace). Each policy, and each
configuration of the plugin, serves the same load before each number of servers. The same seed gives the same result.`,
		Example: `  warmgate simulate --sessions 200 --system 3k --turns 6 --think 8s --endpoints 4,6,8
  warmgate simulate --policy prefix_cache --policy 'prefix_cache={"prefix":{"credit":4}}' --html report.html
  warmgate simulate --trace conversation.jsonl.gz --config plugin.yaml --policy ring_hash -o csv`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return s.run(command) },
	}
	outputFlag(command, &s.output, outcome.Formats...)
	s.loadFlags(command)
	s.server.addFlags(command)
	for _, described := range []string{
		"sessions", "requests", "prompts", "system", "turns", "question", "answer", "think", "ramp", "class", "limited",
	} {
		command.MarkFlagsMutuallyExclusive("trace", described)
	}
	f := command.Flags()
	f.StringArrayVar(&s.policies, "policy", nil, "policy to play: one of the plugin's, or of the gateway's own ("+
		strings.Join(simulate.Natives(), ", ")+"). NAME={...} sets lb_config. Default: "+
		strings.Join(usualPolicies, ", "))
	f.StringArrayVar(&s.configs, "config", nil, "file with a configuration of the plugin to play, of any kind "+
		"that validate reads")
	f.IntSliceVar(&s.endpoints, "endpoints", []int{4}, "numbers of servers to play with")
	f.DurationVar(&s.within, "within", 0, "find the fewest servers, up to --endpoints, with which nine in ten first "+
		"tokens come within this time and nothing is refused. The exit status is 1 if none suffice")
	f.Float64Var(&s.price, "price", 0, "what a server costs an hour, for the cost of tokens")
	f.Uint64Var(&s.seed, "seed", 1, "seed of all that is random")
	f.StringVar(&s.html, "html", "", "also write a page with plots into this file")
	return command
}

// loadFlags adds the flags of the load.
func (s *simulation) loadFlags(command *cobra.Command) {
	f, l := command.Flags(), &s.sessions
	f.StringVar(&s.trace, "trace", "", "file to replay: an access log with the plugin's line, or a trace in "+
		"Mooncake's form, perhaps compressed with gzip; - is the standard input")
	f.Float64Var(&s.speed, "speed", s.speed, "by which factor the trace is faster than it was recorded")
	f.Var((*tokens)(&l.Users), "sessions", "conversations at the same time")
	f.Var((*tokens)(&l.Requests), "requests", "requests of all conversations together")
	f.IntVar(&l.Prompts, "prompts", l.Prompts, "different system prompts; 0: each conversation has its own")
	f.Var((*tokens)(&l.System), "system", "tokens of a system prompt")
	f.IntVar(&l.Turns, "turns", l.Turns, "turns of a conversation")
	f.Var((*tokens)(&l.Question), "question", "tokens that a turn adds, on average")
	f.Var((*tokens)(&l.Answer), "answer", "tokens of an answer, on average")
	f.DurationVar(&l.Think, "think", l.Think, "time from an answer to the next turn, on average")
	f.DurationVar(&l.Ramp, "ramp", l.Ramp, "time in which conversations begin at first; 0: two times --think")
	f.Var((*shares)(&l.Classes), "class", "users of a service class, as the queue has them; may be repeated")
	f.BoolVar(&l.Limited, "limited", l.Limited, "requests limit their answers (max_tokens) to what these will have")
}

// run plays all and prints what has come of it.
func (s *simulation) run(command *cobra.Command) error {
	if err := s.validate(command.Flags().Changed("speed")); err != nil {
		return err
	}
	load, requests, err := s.newLoad(command.InOrStdin(), command.ErrOrStderr())
	if err != nil {
		return err
	}
	contenders, err := s.contenders(command.InOrStdin())
	if err != nil {
		return err
	}
	if err := s.checkPage(); err != nil { // before what may take long
		return err
	}
	debug.SetGCPercent(simulate.GCPercent)
	bar := &progress{out: command.ErrOrStderr(), all: requests * len(contenders) * len(s.endpoints)}
	if s.within > 0 {
		bar.all = requests * len(contenders) * (1 + bits.Len(uint(slices.Max(s.endpoints))))
	}
	play := func(c simulate.Contender, n int) (run outcome.Run, err error) {
		bar.begin(c.Name, n)
		r, err := simulate.Run(load(), simulate.Alike(n, s.server.Engine), c, s.seed, bar.at)
		if err != nil {
			return run, fmt.Errorf("%s, %d endpoints: %w", c.Name, n, err)
		}
		bar.before += requests
		return outcome.Run{Result: r, Cost: s.price * float64(n) * r.Took / 3600}, nil
	}
	runs, err := s.play(contenders, play)
	bar.clear()
	if err != nil {
		return err
	}
	err = outcome.Print(command.OutOrStdout(), s.output, runs)
	s.printNotes(command.ErrOrStderr(), runs)
	if err = errors.Join(err, s.writePage(runs)); err != nil {
		return err
	}
	if slices.ContainsFunc(runs, func(r outcome.Run) bool { return r.Suffices != nil && !*r.Suffices }) {
		return errFound
	}
	return nil
}

// printNotes prints what is in no column: which servers do not suffice, and beside a table why requests were refused.
func (s *simulation) printNotes(w io.Writer, runs []outcome.Run) {
	for i := range runs {
		r := &runs[i]
		name := fmt.Sprintf("%s, %d endpoints", r.Policy, r.Endpoints)
		if r.Suffices != nil && !*r.Suffices {
			fmt.Fprintf(w, "%s: no number of servers up to this one suffices\n", name)
		}
		if s.output != outcome.Formats[0] {
			continue // JSON has the rest
		}
		for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
			fmt.Fprintf(w, "%s: %d requests were refused, %s\n", name, r.Refused[reason], reason)
		}
		if r.Unplaced > 0 {
			fmt.Fprintf(w, "%s: for %d requests the plugin left the choice to the gateway\n", name, r.Unplaced)
		}
	}
}

// play plays each contender with each number of servers, or with as few as suffice.
func (s *simulation) play(
	contenders []simulate.Contender, play func(c simulate.Contender, n int) (outcome.Run, error),
) (runs []outcome.Run, err error) {
	for i, n := range s.endpoints {
		for _, c := range contenders {
			var r outcome.Run
			switch {
			case s.within == 0:
				r, err = play(c, n)
			case i > 0:
				continue
			default:
				r, err = s.fewest(func(n int) (outcome.Run, error) { return play(c, n) })
			}
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// fewest returns the run with the fewest servers, of the numbers from 1 to the largest of --endpoints, with which nine
// in ten first tokens come within the time and nothing is refused: by bisection, as if more servers never were worse.
// If none suffices it is the run with all of them.
func (s *simulation) fewest(play func(n int) (outcome.Run, error)) (outcome.Run, error) {
	least, most := 1, slices.Max(s.endpoints)
	best, err := play(most)
	for err == nil && least < most && s.suffices(&best) {
		n := (least + most) / 2
		var r outcome.Run
		if r, err = play(n); s.suffices(&r) {
			best, most = r, n
		} else {
			least = n + 1
		}
	}
	suffices := s.suffices(&best)
	best.Suffices = &suffices
	return best, err
}

// suffices reports whether a run is good enough.
func (s *simulation) suffices(r *outcome.Run) bool {
	return r.Result != nil && r.Served == r.Requests && r.TTFT.P90 <= s.within.Seconds()
}

// newLoad returns what makes the load for a run, and how many requests it has.
func (s *simulation) newLoad(stdin io.Reader, notes io.Writer) (load func() simulate.Load, requests int, err error) {
	if s.trace == "" {
		if err := s.sessions.Validate(); err != nil {
			return nil, 0, err
		}
		return func() simulate.Load { return s.sessions.New(s.seed) }, s.sessions.Requests, nil
	}
	trace, err := readTrace(s.trace, s.speed, stdin, notes)
	if err != nil {
		return nil, 0, err
	}
	return func() simulate.Load { return trace.New(s.seed) }, trace.Requests, nil
}

// maxEndpoints bounds what fits into memory.
const maxEndpoints = 100_000

// validate refuses what there cannot be.
func (s *simulation) validate(speed bool) error {
	switch {
	case speed && s.trace == "":
		return errors.New("--speed is for a --trace")
	case !(s.speed > 0):
		return errors.New("--speed must be above 0")
	case s.within < 0:
		return errors.New("--within must not be negative")
	case !(s.price >= 0 && s.price <= math.MaxFloat32):
		return errors.New("--price must be a number, and not negative")
	case slices.ContainsFunc(s.endpoints, func(n int) bool { return n < 1 || n > maxEndpoints }):
		return fmt.Errorf("want 1 endpoint at least, and %d at most", maxEndpoints)
	}
	return s.server.validate()
}

// checkPage reports why the page with plots cannot be written. What is in its file stays until there is a new one.
func (s *simulation) checkPage() error {
	if s.html == "" {
		return nil
	}
	page, err := os.OpenFile(s.html, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return page.Close()
}

// writePage writes the page with plots, if one is wanted.
func (s *simulation) writePage(runs []outcome.Run) error {
	if s.html == "" {
		return nil
	}
	var page bytes.Buffer
	if err := outcome.HTML(&page, s.about(), runs); err != nil {
		return err
	}
	return os.WriteFile(s.html, page.Bytes(), 0o666)
}

// about says what was simulated.
func (s *simulation) about() []string {
	l, c, t, cache := &s.sessions, &s.server.Config, &s.server.Times, int(s.server.cache)
	load := fmt.Sprintf("%d requests of %d conversations at the same time, of %d turns, with %d system prompts of "+
		"%d tokens; questions and answers of %d and %d tokens, %v from an answer to the next turn", l.Requests,
		l.Users, l.Turns, l.Prompts, l.System, l.Question, l.Answer, l.Think)
	if len(l.Classes) > 0 {
		load += "; classes of the people " + (*shares)(&l.Classes).String()
	}
	if l.Limited {
		load += "; requests limit their answers"
	}
	if s.trace != "" {
		load = fmt.Sprintf("the trace %s, %g times as fast as recorded", filepath.Base(s.trace), s.speed)
	}
	queue := ""
	if c.MaxQueued > 0 {
		queue = fmt.Sprintf(" and %d that wait", c.MaxQueued)
	}
	return []string{
		"Load: " + load,
		fmt.Sprintf("Servers: %d requests at once%s, %d tokens of KV cache; %g ms for a prompt, %g ms for a token of "+
			"it; %g ms for a step that decodes, and %g ms for each request in it", c.MaxNumSeqs, queue, cache,
			t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS),
		fmt.Sprintf("Seed %d, warmgate %s", s.seed, thisBuild().Version),
	}
}
