package traffic

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Chats are conversations behind a few system prompts, with lengths as logs of chats have them.
type Chats struct {
	Seed     uint64 // of lengths, pauses and beginnings
	Words    uint64 // of the words: others make texts of the same lengths that share nothing with these
	Sessions int
	Turns    int
	Systems  []int // lengths of the system prompts, in words
	Question Spread
	Answer   Spread
	Rate     float64       // sessions that begin in a second
	Pause    time.Duration // between turns, on average
}

// Spread is a log-normal distribution of lengths in tokens, which is cut at both ends.
type Spread struct{ Median, Sigma, Least, Most float64 }

func (s Spread) draw(r *rand.Rand) int {
	return int(min(s.Most, max(s.Least, s.Median*math.Exp(s.Sigma*r.NormFloat64()))))
}

// Scripts writes them. A session is named by the seed and its number.
func (c *Chats) Scripts() []Script {
	shape, content := rand.New(rand.NewPCG(c.Seed, 7)), rand.New(rand.NewPCG(c.Seed, c.Words))
	var systems []string
	for _, n := range c.Systems {
		systems = append(systems, loadgen.Text(content, n))
	}
	name := strconv.FormatUint(c.Seed, 10) + "-"
	at, out := 0.0, make([]Script, c.Sessions)
	for i := range out {
		at += shape.ExpFloat64() / c.Rate
		s := &out[i]
		s.Session, s.Due = name+strconv.Itoa(i), time.Duration(at*float64(time.Second))
		add := []loadgen.Message{System(systems[shape.IntN(len(systems))])}
		pause := time.Duration(0)
		for k := range c.Turns {
			question := loadgen.Text(content, c.Question.draw(shape))
			s.Turns = append(s.Turns, Turn{
				Parent: k - 1, Add: append(add, User(question)), Answer: c.Answer.draw(shape), Think: pause,
			})
			add, pause = nil, time.Duration(shape.ExpFloat64()*float64(c.Pause))
		}
	}
	return out
}
