package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// Sessions describes a load: users who hold conversations, one after the other. Each conversation has a system prompt
// in common with others, and each turn sends all that was said so far.
type Sessions struct {
	Users    int           // who hold a conversation at the same time
	Requests int           // of all users together
	Prompts  int           // different system prompts, of which each conversation has one; 0: each has its own
	System   int           // tokens of a system prompt
	Turns    int           // of a conversation
	Question int           // tokens that a turn adds, on average: evenly between half and one and a half of it
	Answer   int           // tokens of an answer, likewise
	Think    time.Duration // from an answer to the next turn, on average (exponential)
	Ramp     time.Duration // within which the users begin; 0: within two times the mean pause
	Limited  bool          // requests limit their answers to the tokens that these will have
	Classes  []Share       // of the users, by service class; none: their requests name none
	Places   []Place       // where the users are, by region of the [Layout]; none: all are in the first one
	Day      Day           // when they are awake; with one, Requests is not looked at
}

// Share is a part of the users.
type Share struct {
	Class  string
	Weight float64 // relative to the other shares, above 0
}

const (
	maxUsers  = 10_000_000 // in about a gigabyte of memory
	maxPauses = 10 * 365 * 24 * time.Hour
)

// Validate reports what cannot be played.
func (s *Sessions) Validate() error {
	switch {
	case s.Users > maxUsers:
		return fmt.Errorf("want at most %d sessions at a time", maxUsers)
	case s.Users < 1:
		return errors.New("want at least 1 session at a time")
	case s.Requests < 1:
		return errors.New("want at least 1 request")
	case s.Turns < 1:
		return errors.New("want at least 1 turn")
	case s.Question < 1 || s.Answer < 1:
		return errors.New("want at least 1 token for questions and answers")
	case min(s.System, s.Prompts) < 0 || min(s.Think, s.Ramp) < 0:
		return errors.New("want no negative numbers")
	case float64(s.Ramp)+float64(s.Think)*(2+float64(s.Requests)/float64(s.Users)) > float64(maxPauses):
		return errors.New("pauses and the time in which sessions begin would take more than ten years")
	case slices.ContainsFunc(s.Classes, func(c Share) bool { return c.Class == "" || !(c.Weight > 0) }):
		return errors.New("want names and positive weights of classes")
	case slices.ContainsFunc(s.Places, func(p Place) bool { return !(p.Share > 0) || math.Abs(p.Zone) > hours }):
		return errors.New("want positive shares of regions, and zones of 24 hours at most")
	}
	return s.Day.validate()
}

// Expected returns about how many requests there will be.
func (s *Sessions) Expected() int {
	if s.Day.Length == 0 {
		return s.Requests
	}
	const perToken = 20 * time.Millisecond
	turn := max(time.Millisecond, s.Think+time.Duration(s.Answer)*perToken)
	return int(float64(s.Users) * s.Day.mean() * (float64(s.Day.Length) / float64(turn)))
}

// classOf returns the class of a user: each class has its share of any users in a row, as nearly as can be.
func (s *Sessions) classOf(user int) string {
	sum := 0.0
	for _, c := range s.Classes {
		sum += c.Weight
	}
	const golden = 0.6180339887498949 // whose multiples are spread evenly
	_, at := math.Modf(float64(user) * golden)
	for _, c := range s.Classes {
		if at -= c.Weight / sum; at < 0 {
			return c.Class
		}
	}
	return ""
}

// New returns the load with a seed. The same seed gives the same conversations, whatever serves them.
func (s *Sessions) New(seed uint64) Load {
	l := &sessionsLoad{Sessions: *s, seed: seed, users: make([]user, s.Users)}
	if l.Ramp == 0 {
		l.Ramp = 2 * l.Think
	}
	if len(l.Places) == 0 {
		l.Places = []Place{{Share: 1}}
	}
	l.settle()
	return l
}

// settle gives users their regions: each region has its share of any users in a row, as nearly as can be, and of each
// class.
func (l *sessionsLoad) settle() {
	const step = 0.41421356237309515 // whose multiples are spread evenly, also beside those of classOf
	count := make([]int, len(l.Places))
	for i := range l.users {
		_, at := math.Modf(float64(i) * step)
		u := &l.users[i]
		u.region = placeOf(l.Places, at)
		u.rank = float64(count[u.region])
		count[u.region]++
	}
	for i := range l.users {
		u := &l.users[i]
		u.rank = (u.rank + 0.5) / float64(count[u.region])
	}
}

type sessionsLoad struct {
	Sessions
	seed  uint64
	users []user
	send  func(at time.Duration, number int)
	begun int // conversations
	sent  int // requests
}

// user is one who holds a conversation.
type user struct {
	rng     *rand.Rand
	session uint64
	turn    int
	prompt  []engine.Part
	region  int
	rank    float64 // which share of the region's users sleeps for less long
}

func (l *sessionsLoad) Begin(send func(at time.Duration, number int)) {
	l.send = send
	rng := rand.New(rand.NewPCG(l.seed, 1))
	for i := range l.users {
		l.users[i].rng = rand.New(rand.NewPCG(l.seed, uint64(i)+2))
		send(time.Duration(rng.Float64()*float64(l.Ramp)), i)
	}
}

// about returns a length that is so many tokens on average.
func about(rng *rand.Rand, mean int) int { return max(1, (mean+1)/2+rng.IntN(mean+mean%2+1)) }

func (l *sessionsLoad) Send(now time.Duration, number int) *Request {
	u := &l.users[number]
	if l.isOver(now) || u.turn == 0 && l.asleep(now, u, number) {
		return nil
	}
	l.sent++
	if u.turn == 0 {
		l.beginSession(u)
	}
	u.turn++
	last := name(u.session, 0)
	if n := len(u.prompt); n > 0 {
		last = u.prompt[n-1].Name
	}
	question := engine.Part{Name: name(last, u.session+uint64(u.turn)), Tokens: about(u.rng, l.Question)}
	r := &Request{
		Session: u.session, Prompt: append(u.prompt, question), Answer: about(u.rng, l.Answer),
		Name: name(question.Name, 1), Class: l.classOf(number), Region: u.region,
	}
	if l.Limited {
		r.Limit = r.Answer
	}
	u.prompt = append(r.Prompt, engine.Part{Name: r.Name, Tokens: r.Answer, Answer: true})
	return r
}

// isOver reports whether nothing more is sent.
func (l *sessionsLoad) isOver(now time.Duration) bool {
	if l.Day.Length > 0 {
		return now >= l.Day.Length
	}
	return l.sent >= l.Requests
}

// asleep has a user that is asleep go on when it is awake, and reports whether it is.
func (l *sessionsLoad) asleep(now time.Duration, u *user, number int) bool {
	if l.Day.Length == 0 {
		return false
	}
	wakes := l.Day.wakes(now, l.Places[u.region].Zone, u.rank)
	if wakes > now {
		l.send(wakes, number)
	}
	return wakes > now
}

// beginSession begins a conversation with a system prompt.
func (l *sessionsLoad) beginSession(u *user) {
	u.session = name(l.seed, uint64(l.begun)+1)
	system := u.session
	if l.Prompts > 0 {
		system = name(l.seed, uint64(l.begun%l.Prompts)) ^ 1
	}
	l.begun++
	const usual = 64 // turns; for more of them it grows
	u.prompt = make([]engine.Part, 0, 1+2*min(l.Turns, usual))
	if l.System > 0 {
		u.prompt = append(u.prompt, engine.Part{Name: name(system, 2), Tokens: l.System})
	}
}

func (l *sessionsLoad) Ended(now time.Duration, number int, _ *Request, served bool) {
	u := &l.users[number]
	if !served || u.turn == l.Turns {
		u.turn = 0
	}
	l.send(now+time.Duration(u.rng.ExpFloat64()*float64(l.Think)), number)
}

// name returns a name for what is behind another one.
func name(before, n uint64) uint64 { return enginesim.Mix(enginesim.Mix(before) + n) }
