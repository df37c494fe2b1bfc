package placement

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// draw draws a length, in tokens or turns.
type draw func(rng *rand.Rand) int

// around draws between half and one and a half of a mean, evenly.
func around(mean int) draw {
	return func(rng *rand.Rand) int { return max(1, (mean+1)/2+rng.IntN(mean+1)) }
}

// exactly draws nothing.
func exactly(n int) draw { return func(*rand.Rand) int { return n } }

// normal draws by the normal distribution, at least 8.
func normal(mean, deviation float64) draw {
	return func(rng *rand.Rand) int { return int(max(8, mean+deviation*rng.NormFloat64())) }
}

// lognormal draws by the logarithmic normal distribution with a median, within bounds.
func lognormal(median, sigma, least, most float64) draw {
	return func(rng *rand.Rand) int { return int(min(most, max(least, median*math.Exp(sigma*rng.NormFloat64())))) }
}

// lognormalMean is lognormal by mean and standard deviation, at least 4.
func lognormalMean(mean, deviation, most float64) draw {
	variance := math.Log1p(deviation * deviation / (mean * mean))
	return lognormal(mean*math.Exp(-variance/2), math.Sqrt(variance), 4, most)
}

// chat describes conversations, each behind a system prompt. What is drawn does not depend on how it is served.
type chat struct {
	sessions int
	prompts  []int // tokens of the system prompts
	context  draw  // what a conversation has of its own before its first question; nil for nothing
	turns    draw
	question draw
	answer   draw
	think    time.Duration // between an answer and the next turn, on average (exponential)
	users    int           // conversations at once, a closed loop: a user goes on with the next one; 0 = an open loop
	rate     float64       // of the open loop: conversations that begin in a second
	plain    bool          // a prompt is one text of the completions API; else a chat
	timed    bool          // turns of the open loop come at times of their own, whatever is answered by then
}

// longestChat is the most turns of a conversation.
const longestChat = 1 << 8

// talk is one conversation.
type talk struct {
	session uint64
	at      time.Duration // of the open loop
	turns   []turn
	prompt  []engine.Part // what was said so far
}

type turn struct {
	add    int // tokens of what the user says
	answer int
	pause  time.Duration // before the next turn
}

// new returns the load of a seed.
func (c *chat) new(seed uint64) simulate.Load { return &chatLoad{chat: c, talks: c.draw(seed)} }

// draw draws the conversations.
func (c *chat) draw(seed uint64) []talk {
	talks, at := make([]talk, c.sessions), 0.0
	arrivals := rand.New(rand.NewPCG(seed, 31))
	for i := range talks {
		rng := rand.New(rand.NewPCG(seed, uint64(i)<<8|32))
		t := &talks[i]
		t.session = enginesim.Mix(seed<<32+uint64(i)) | 1
		if c.rate > 0 {
			at += arrivals.ExpFloat64() / c.rate
			t.at = time.Duration(at * float64(time.Second))
		}
		n := rng.IntN(len(c.prompts))
		t.prompt = append(t.prompt, engine.Part{Name: enginesim.Mix(seed<<16 + uint64(n)), Tokens: c.prompts[n]})
		if c.context != nil {
			t.prompt = append(t.prompt, engine.Part{
				Name: enginesim.Mix(t.session + longestChat<<8), Tokens: c.context(rng),
			})
		}
		for range min(longestChat, c.turns(rng)) {
			t.turns = append(t.turns, turn{
				c.question(rng), c.answer(rng), time.Duration(rng.ExpFloat64() * float64(c.think)),
			})
		}
	}
	return talks
}

type chatLoad struct {
	*chat
	talks []talk
	begun int
	send  func(at time.Duration, number int)
}

func (l *chatLoad) Begin(send func(at time.Duration, number int)) {
	l.send = send
	if l.users == 0 {
		for i := range l.talks {
			l.beginAt(i)
		}
		return
	}
	// Users who all come at the same moment, before caches that are all empty, would decide the high percentiles.
	apart := max(20*time.Millisecond, 2*l.think/time.Duration(l.users))
	for i := range l.users {
		l.next(time.Duration(i) * apart)
	}
}

// beginAt has a conversation of the open loop come when it does.
func (l *chatLoad) beginAt(i int) {
	at := l.talks[i].at
	l.send(at, i*longestChat)
	if !l.timed {
		return
	}
	for k := range l.talks[i].turns[1:] {
		const perToken = 15 * time.Millisecond // that the recorded answers took
		before := &l.talks[i].turns[k]
		at += before.pause + time.Duration(before.answer)*perToken
		l.send(at, i*longestChat+k+1)
	}
}

// next has a user begin a conversation.
func (l *chatLoad) next(at time.Duration) {
	if l.begun < len(l.talks) {
		l.begun++
		l.send(at, (l.begun-1)*longestChat)
	}
}

func (l *chatLoad) Send(_ time.Duration, number int) *simulate.Request {
	t := &l.talks[number/longestChat]
	of := &t.turns[number%longestChat]
	name := enginesim.Mix(t.session + uint64(number%longestChat)<<8)
	t.prompt = append(t.prompt, engine.Part{Name: name, Tokens: of.add})
	r := &simulate.Request{
		Session: t.session, Prompt: t.prompt, OneMessage: l.plain, OneText: l.plain, Answer: of.answer,
		Name: enginesim.Mix(name),
		Warm: number/longestChat < l.sessions/warmPart,
	}
	t.prompt = append(t.prompt, engine.Part{Name: r.Name, Tokens: of.answer, Answer: !l.plain})
	return r
}

// warmPart is which part of the conversations is in no figures: the first ones meet empty caches.
const warmPart = 10

func (l *chatLoad) Ended(now time.Duration, number int, _ *simulate.Request, _ bool) {
	t, k := &l.talks[number/longestChat], number%longestChat
	switch {
	case l.timed:
	case k+1 < len(t.turns):
		l.send(now+t.turns[k].pause, number+1)
	case l.users > 0:
		l.next(now + t.turns[k].pause)
	}
}
