// Package simload plays the scripts of benchmarks in a simulation (internal/simulate), to compare it with real gateways
// on the same requests.
package simload

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// Play is how scripts are played.
type Play struct {
	Scripts []traffic.Script
	Users   int                         // scripts under way at once, a closed loop; 0: each begins when it is due
	Faster  float64                     // by which factor an open loop is faster than its own pace; 0: as it is
	InTurns bool                        // a user continues with the script that has waited for longest after each turn
	Plain   bool                        // prompts are one text, without messages
	Warm    func(script, turn int) bool // turns that are not in the figures; nil for none
	Apart   time.Duration               // between the beginnings of two users
}

// New returns the load.
func (p *Play) New() simulate.Load {
	l := &load{Play: *p}
	for i := range p.Scripts {
		l.scripts = append(l.scripts, script{first: len(l.turns)})
		for k := range p.Scripts[i].Turns {
			l.turns = append(l.turns, turn{script: i, number: k})
		}
	}
	return l
}

// script is where one is.
type script struct {
	first int // its first turn in load.turns
	open  int // turns that are under way or due
}

// turn is one request. Requests are sent under its number.
type turn struct {
	script, number int
	prompt         []engine.Part // nil until it is sent
	name           uint64        // of the prompt with the answer
}

type load struct {
	Play
	send    func(at time.Duration, number int)
	scripts []script
	turns   []turn
	queue   []next // what users of a closed loop do next
}

// next is a turn that waits for a user.
type next struct {
	number int
	ready  time.Duration
}

func (l *load) Begin(send func(at time.Duration, number int)) {
	l.send = send
	if l.Users == 0 {
		for i := range l.scripts {
			at := float64(l.Scripts[i].Due)
			if l.Faster > 0 {
				at /= l.Faster
			}
			l.due(time.Duration(at), l.scripts[i].first)
		}
		return
	}
	for i := range l.scripts {
		l.queue = append(l.queue, next{number: l.scripts[i].first})
	}
	for i := range l.Users {
		l.advance(time.Duration(i) * l.Apart)
	}
}

// due has a turn sent at a time.
func (l *load) due(at time.Duration, number int) {
	l.scripts[l.turns[number].script].open++
	l.send(at, number)
}

// advance has a user play what has waited for longest.
func (l *load) advance(now time.Duration) {
	if len(l.queue) == 0 {
		return
	}
	n := l.queue[0]
	l.queue = l.queue[1:]
	l.due(max(now, n.ready), n.number)
}

func (l *load) Send(_ time.Duration, number int) *simulate.Request {
	t := &l.turns[number]
	s := &l.Scripts[t.script]
	of := &s.Turns[t.number]
	var before []engine.Part
	one := l.Plain
	switch {
	case of.Parent >= 0:
		p := &l.turns[l.scripts[t.script].first+of.Parent]
		answer := engine.Part{Name: p.name, Tokens: s.Turns[of.Parent].Answer, Answer: !l.Plain}
		before = append(append(before, p.prompt...), answer)
	case len(of.Add) == 1 && len(s.Tools) == 0 && len(s.Turns) == 1:
		one = true
	}
	t.prompt = before
	if len(s.Tools) > 0 && of.Parent < 0 {
		t.add("tools", string(s.Tools), false)
	}
	for _, m := range of.Add {
		t.add(m.Role, m.Content, one)
	}
	t.name = t.end("answer")
	return &simulate.Request{
		Session: xxhash.Sum64String(s.Session) | 1, Prompt: t.prompt, OneMessage: one, OneText: l.Plain,
		Answer: of.Answer, Limit: of.Answer, Name: t.name, Warm: l.Warm != nil && l.Warm(t.script, t.number),
	}
}

// divided is the length of the parts of a text that may have its beginning in common with others.
const divided = 16 * enginesim.BytesPerToken

// add adds a message to a prompt, as one part or as many.
func (t *turn) add(role, text string, inParts bool) {
	const template = len(": \n")
	for inParts && len(text) > divided {
		t.prompt = append(t.prompt, engine.Part{
			Name: t.end(text[:divided]), Tokens: divided / enginesim.BytesPerToken,
		})
		text = text[divided:]
	}
	t.prompt = append(t.prompt, engine.Part{
		Name: t.end(role + text), Tokens: enginesim.TokensOf(len(role) + template + len(text)),
	})
}

// end returns the name of the prompt so far with a text behind it.
func (t *turn) end(text string) uint64 {
	before := uint64(0)
	if n := len(t.prompt); n > 0 {
		before = t.prompt[n-1].Name
	}
	return enginesim.Mix(before ^ xxhash.Sum64String(text))
}

func (l *load) Ended(now time.Duration, number int, _ *simulate.Request, _ bool) {
	t := &l.turns[number]
	s, turns := &l.scripts[t.script], l.Scripts[t.script].Turns
	s.open--
	for k := range turns {
		if turns[k].Parent != t.number {
			continue
		}
		if l.InTurns {
			l.queue = append(l.queue, next{s.first + k, now})
			continue
		}
		l.due(now+turns[k].Think, s.first+k)
	}
	if l.Users > 0 && s.open == 0 {
		l.advance(now)
	}
}
