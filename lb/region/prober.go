package region

import (
	"slices"
	"time"
)

// Prober asks the peers how they are, and writes what it hears on the board. One worker of a gateway has one.
type Prober struct {
	board *Board
	keys  Keys
	id    uint64       // upper half of the nonces
	count []uint32     // of the probes, by peer: lower half of the nonces
	asked [][]question // by peer: those under way, the earliest first
	due   []time.Duration
}

// question is a probe under way.
type question struct {
	nonce   uint64
	at      time.Duration
	counted uint32 // requests forwarded to the peer until then
	missed  bool   // it was counted as missed
}

// maxUnderWay is how many probes of a peer may be under way. It is less than the window of [Replays].
const maxUnderWay = 32

// NewProber returns a prober that has asked nobody yet. By its id, which must be random, the peers know its probes from
// those of others: see [Replays].
func NewProber(b *Board, k Keys, id uint32) *Prober {
	n := len(b.config.Peers)
	return &Prober{
		board: b, keys: k, id: uint64(id) << 32, count: make([]uint32, n), asked: make([][]question, n),
		due: make([]time.Duration, n),
	}
}

// Due reports whether the peer is to be asked now.
func (p *Prober) Due(now time.Duration, peer int) bool {
	return now >= p.due[peer] && len(p.asked[peer]) < maxUnderWay
}

// Ask returns the texts that ask a peer, now, which is wall since the Unix epoch.
func (p *Prober) Ask(now, wall time.Duration, peer int) (Texts, error) {
	b := p.board
	p.count[peer]++
	q := question{nonce: p.id | uint64(p.count[peer]), at: now}
	p.due[peer] = now + b.config.Interval
	if err := b.change(func() bool { return b.peers[peer].restart(&b.config, now) }); err != nil {
		return Texts{}, err
	}
	q.counted = b.peers[peer].sent
	p.asked[peer] = append(p.asked[peer], q)
	return p.keys.SignProbe(b.config.Name, b.config.Peers[peer].Name, wall, q.nonce), nil
}

// Hear takes what came now, which is wall since the Unix epoch, in answer to a probe of the peer. What is refused
// changes nothing: the probe will have been missed. So is an answer that comes after [Timeout], which a busy gateway
// hands on although it has given up waiting for it, or was about to.
func (p *Prober) Hear(now, wall time.Duration, peer int, text string) error {
	b := p.board
	a, err := p.keys.ReadAnswer(text, b.config.Name, wall)
	if err != nil {
		return err
	}
	if a.From != b.config.Peers[peer].Name {
		return ErrElsewhere
	}
	i := slices.IndexFunc(p.asked[peer], func(q question) bool { return q.nonce == a.Nonce })
	if i < 0 {
		return ErrReplayed
	}
	q := p.asked[peer][i]
	if now-q.at >= Timeout {
		return ErrStale
	}
	// Answers to earlier probes say nothing new any more.
	p.asked[peer] = slices.Delete(p.asked[peer], 0, i+1)
	return b.change(func() bool {
		b.peers[peer].hear(&b.config, now, q.at, q.counted, &a)
		return p.decide(now)
	})
}

// Tick counts the probes that were not answered in time as missed, and decides which peers are adopted. It is called at
// least once in an interval.
func (p *Prober) Tick(now time.Duration) error {
	b := p.board
	if err := b.read(); err != nil {
		return err
	}
	missed := make([]int, len(p.asked))
	for peer := range p.asked {
		timeout := b.peers[peer].timeout(&b.config)
		if b.peers[peer].gone {
			timeout = Timeout // it may come back farther than it was, which is not measured yet
		}
		for i := range p.asked[peer] {
			if q := &p.asked[peer][i]; !q.missed && now-q.at >= timeout {
				q.missed = true
				missed[peer]++
			}
		}
		p.asked[peer] = slices.DeleteFunc(p.asked[peer], func(q question) bool { return now-q.at >= Timeout })
	}
	if slices.Max(append(missed, 0)) == 0 {
		return nil
	}
	return b.change(func() bool {
		for peer, n := range missed {
			for range n {
				b.peers[peer].miss(&b.config, now)
			}
		}
		return p.decide(now)
	})
}

// decide decides which of the peers that it asks are adopted, and returns true.
func (p *Prober) decide(now time.Duration) bool {
	b := p.board
	b.forget(now)
	for peer := range b.peers {
		s := &b.peers[peer]
		if p.count[peer] == 0 {
			continue
		}
		if s.adopted = adopts(&b.config, b.peers, peer, now); !s.adopted {
			s.servers, s.seen, s.covered = State{}, 0, 0
		}
	}
	return true
}
