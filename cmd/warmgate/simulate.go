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
	keys         []string // that vary
	price        float64
	seed         uint64
	within       time.Duration
	where        layouts

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
Mooncake's form (--trace). Each policy, and each configuration of the plugin, serves the same load before each number of
servers. The same seed gives the same result.

Servers may be of several kinds (--servers), in regions that forward requests to each other (--region), or in two pools
of which one computes prompts for the other (--prefill, --decode).`,
		Example: `  warmgate simulate --sessions 200 --system 3k --turns 6 --think 8s --endpoints 4,6,8
  warmgate simulate --policy prefix_cache --policy 'prefix_cache={"prefix":{"credit":4}}' --html report.html
  warmgate simulate --policy prefix_cache --vary lb_config.prefix.credit=1,2,4
  warmgate simulate --region eu=12,zone=1 --region us=12,zone=-5 --day 20m --sessions 600 --within 500ms
  warmgate simulate --trace conversation.jsonl.gz --config plugin.yaml --policy ring_hash -o csv`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return s.run(command) },
	}
	outputFlag(command, &s.output, outcome.Formats...)
	s.loadFlags(command)
	s.server.addFlags(command)
	s.where.addFlags(command)
	f := command.Flags()
	f.StringArrayVar(&s.policies, "policy", nil, "policy to play: one of the plugin's, or of the gateway's own ("+
		strings.Join(simulate.Natives(), ", ")+"). NAME={...} sets lb_config. Default: "+
		strings.Join(usualPolicies, ", "))
	f.StringArrayVar(&s.configs, "config", nil, "file with a configuration of the plugin to play, of any kind "+
		"that validate reads")
	f.StringArrayVar(&s.keys, "vary", nil, "play each configuration with each of these values of a key, such as "+
		"lb_config.max_inflight=8,16,32; may be repeated, for all combinations")
	f.DurationVar(&s.within, "within", 0, "find the fewest servers, up to --endpoints or those of each --region, with "+
		"which nine in ten first tokens come within this time and nothing is refused, in each region. The exit status "+
		"is 1 if none suffice")
	f.Float64Var(&s.price, "price", 0, "what a server costs an hour, for the cost of tokens")
	f.Uint64Var(&s.seed, "seed", 1, "seed of all that is random")
	f.StringVar(&s.html, "html", "", "also write a page with plots into this file")
	excludeFlags(command)
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
	f.DurationVar(&l.Day.Length, "day", 0, "play a day that takes so long: most users are awake at 15:00 of their zone")
	f.Float64Var(&l.Day.Night, "night", 0.2, "users awake at the quietest hour of a --day, over those at the busiest")
	f.BoolVar(&l.Limited, "limited", l.Limited, "requests limit their answers (max_tokens) to what these will have")
}

// run plays all and prints what has come of it.
func (s *simulation) run(command *cobra.Command) error {
	if err := s.validate(command); err != nil {
		return err
	}
	load, requests, err := s.newLoad(command.InOrStdin(), command.ErrOrStderr())
	if err != nil {
		return err
	}
	contenders, err := s.contenders(command.InOrStdin(), command.ErrOrStderr())
	if err != nil {
		return err
	}
	games, err := s.where.games(contenders, s.server.Engine, s.within > 0)
	if err != nil {
		return err
	}
	if err := errors.Join(check(games), s.checkPage()); err != nil { // before what may take long
		return err
	}
	debug.SetGCPercent(simulate.GCPercent)
	bar := &progress{out: command.ErrOrStderr(), all: requests * len(games)}
	if s.within > 0 {
		bar.all *= 1 + bits.Len(uint(games[0].endpoints()))
	}
	var runs []outcome.Run
	for i := range games {
		run, err := s.play(&games[i], func(g *game) (*simulate.Result, error) {
			bar.begin(g.name())
			r, err := g.layout.Run(load(), g.contender, s.seed, bar.at)
			bar.before += requests
			return r, err
		})
		if err != nil {
			bar.clear()
			return fmt.Errorf("%s: %w", games[i].name(), err)
		}
		run.Cost = s.price * float64(run.Endpoints) * run.Took / 3600
		runs = append(runs, run)
	}
	bar.clear()
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

// check reports which games cannot be played.
func check(games []game) error {
	var faults []error
	for i := range games {
		if err := games[i].layout.Check(&games[i].contender); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w; name them by --region", games[i].contender.Name, err))
		}
	}
	return errors.Join(faults...)
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

// play plays a game with all of its servers, or with as few as suffice.
func (s *simulation) play(g *game, play func(g *game) (*simulate.Result, error)) (run outcome.Run, err error) {
	if s.within == 0 {
		run.Result, err = play(g)
		return run, err
	}
	suffices := false
	run.Result, suffices, err = g.layout.Fewest(&g.contender, func(l *simulate.Layout) (*simulate.Result, error) {
		return play(&game{g.contender, l})
	}, func(r *simulate.Result) bool { return r.Served == r.Requests && r.TTFT.P90 <= s.within.Seconds() })
	run.Suffices = &suffices
	return run, err
}

// newLoad returns what makes the load for a run, and how many requests it has.
func (s *simulation) newLoad(stdin io.Reader, notes io.Writer) (load func() simulate.Load, requests int, err error) {
	if s.trace == "" {
		s.sessions.Places = s.where.places()
		if err := s.sessions.Validate(); err != nil {
			return nil, 0, err
		}
		return func() simulate.Load { return s.sessions.New(s.seed) }, s.sessions.Expected(), nil
	}
	trace, err := readTrace(s.trace, s.speed, stdin, notes)
	if err != nil {
		return nil, 0, err
	}
	return func() simulate.Load { return simulate.Divide(trace.New(s.seed), s.where.places()) }, trace.Requests, nil
}

// validate refuses what there cannot be.
func (s *simulation) validate(command *cobra.Command) error {
	if err := errors.Join(checkNeeds(command), s.where.validate(command), s.server.validate()); err != nil {
		return err
	}
	switch {
	case command.Flags().Changed("day") && s.sessions.Day.Length < time.Second:
		return errors.New("want a --day of a second at least")
	case !(s.speed > 0):
		return errors.New("--speed must be above 0")
	case s.within < 0:
		return errors.New("--within must not be negative")
	case !(s.price >= 0 && s.price <= math.MaxFloat32):
		return errors.New("--price must be a number, and not negative")
	}
	return nil
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
	if l.Day.Length > 0 {
		load = strings.Replace(load, fmt.Sprintf("%d requests", l.Requests), "requests", 1) +
			fmt.Sprintf("; of a day that takes %v, of whose users %g are awake at night", l.Day.Length, l.Day.Night)
	}
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
	return slices.Concat([]string{"Load: " + load}, s.where.about(), []string{
		fmt.Sprintf("Servers: %d requests at once%s, %d tokens of KV cache; %g ms for a prompt, %g ms for a token of "+
			"it; %g ms for a step that decodes, and %g ms for each request in it", c.MaxNumSeqs, queue, cache,
			t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS),
		fmt.Sprintf("Seed %d, warmgate %s", s.seed, thisBuild().Version),
	})
}
