package region

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Board is what the workers of a gateway know of the peers together: the [Prober] of one of them writes what it hears,
// and each counts what it forwards. It is one value of shared memory, little-endian:
//
//	offset  size  header
//	0       4     magic, "WGP4"
//	4       1     number of peers
//
//	then for each peer, by fields without padding
//	4   tag of its name        4   requests forwarded             8   when a probe was last answered or missed
//	4   open endpoints         4   of these, before the probe     8   when it was last heard, or first asked
//	4   requests that wait     4   probes missed in a row         8   since when it has answered every probe
//	8   expected wait          8   when it last answered          28  its servers, as they are seen from here
//	8   round trip                                                1   1: gone, 2: adopted
//	                                                              1   number of regions that it says something of
//
//	with its servers: 4 open, 4 requests that wait, 8 expected wait, 8 when that was seen, 4 forwarded by then
//	then for each region: 4 tag, 8 when it was last said to be heard, 8 when to be adopted, 8 distance
//	then, with fields as in outcomes: what has become of the requests that were forwarded there
//
// Times and durations are 64-bit nanoseconds, on the clock that the process shares.
type Board struct {
	config Config
	kv     lb.KV
	key    string

	peers  []status // as read last
	others []record // of peers that only workers with another configuration have
	cas    uint32
}

// record is what is known of a peer with a tag.
type record struct {
	tag uint32
	status
}

const (
	boardMagic = "WGP4"
	goneFlag   = 1
	adoptFlag  = 2
)

// NewBoard returns the board of the workers that use the same key of shared memory, which should exist before they run:
// see [lb.KV]. They may have other peers and times, as while a configuration is being replaced: what is known of a peer
// belongs to its name.
func NewBoard(kv lb.KV, key string, c Config) *Board {
	c.Peers = slices.Clone(c.Peers[:min(len(c.Peers), MaxPeers)])
	return &Board{config: c, kv: kv, key: key, peers: make([]status, len(c.Peers))}
}

// Config returns what the board is for.
func (b *Board) Config() *Config { return &b.config }

// read reads the board. Of peers that are not there, and of all if the value is damaged, nothing is known.
func (b *Board) read() error {
	b.clear()
	val, cas, err := b.kv.Get(b.key)
	b.cas = cas
	if err != nil {
		if errors.Is(err, lb.ErrNotFound) {
			return nil
		}
		return err
	}
	r := wire.NewReader(val)
	if string(r.Take(len(boardMagic))) != boardMagic {
		return nil
	}
	for range r.Byte() {
		tag := r.Uint32()
		s := readStatus(&r)
		if !r.OK() {
			b.clear()
			return nil
		}
		if i := b.index(tag); i >= 0 {
			b.peers[i] = s
		} else if len(b.others) < MaxPeers {
			b.others = append(b.others, record{tag, s})
		}
	}
	return nil
}

func (b *Board) clear() {
	clear(b.peers)
	b.others = b.others[:0]
}

// forgetAfter is for how long a peer is known that nobody asks any more.
const forgetAfter = time.Minute

// forget forgets the peers that nobody has had for long.
func (b *Board) forget(now time.Duration) {
	b.others = slices.DeleteFunc(b.others, func(r record) bool { return now-max(r.asked, r.since) > forgetAfter })
}

// index returns the peer with the tag, -1 if there is none.
func (b *Board) index(tag uint32) int {
	return slices.IndexFunc(b.config.Peers, func(p Peer) bool { return p.Tag() == tag })
}

func readStatus(r *wire.Reader[[]byte]) (s status) {
	s.Open, s.Queued, s.Wait = int(r.Uint32()), int(r.Uint32()), r.Duration()
	s.rtt, s.sent, s.counted, s.missed = r.Duration(), r.Uint32(), r.Uint32(), r.Uint32()
	s.answered, s.asked, s.since, s.steady = r.Duration(), r.Duration(), r.Duration(), r.Duration()
	s.servers.Open, s.servers.Queued, s.servers.Wait = int(r.Uint32()), int(r.Uint32()), r.Duration()
	s.seen, s.covered = r.Duration(), r.Uint32()
	flags := r.Byte()
	s.gone, s.adopted = flags&goneFlag > 0, flags&adoptFlag > 0
	for range r.Byte() {
		o := opinion{region: r.Uint32(), heard: r.Duration(), told: r.Duration(), distance: r.Duration()}
		if !r.OK() {
			return status{}
		}
		s.opinions = append(s.opinions, o)
	}
	s.outcomes = readOutcomes(r)
	return s
}

func (s *status) append(w wire.Writer, tag uint32) wire.Writer {
	var flags byte
	if s.gone {
		flags |= goneFlag
	}
	if s.adopted {
		flags |= adoptFlag
	}
	w = w.Uint32(tag).Uint32(uint32(s.Open)).Uint32(uint32(s.Queued)).Duration(s.Wait).
		Duration(s.rtt).Uint32(s.sent).Uint32(s.counted).Uint32(s.missed).
		Duration(s.answered).Duration(s.asked).Duration(s.since).Duration(s.steady).
		Uint32(uint32(s.servers.Open)).Uint32(uint32(s.servers.Queued)).Duration(s.servers.Wait).
		Duration(s.seen).Uint32(s.covered).Byte(flags).Byte(byte(len(s.opinions)))
	for _, o := range s.opinions {
		w = w.Uint32(o.region).Duration(o.heard).Duration(o.told).Duration(o.distance)
	}
	return s.outcomes.append(w)
}

// change reads the board, has edit change it, and writes it if edit says so; again while other workers are faster. What
// cannot be written is lost: a count, or an answer after which the next comes.
func (b *Board) change(edit func() bool) error {
	var err error
	for range swaps {
		if err = b.read(); err != nil {
			return err
		}
		if !edit() {
			return nil
		}
		w := wire.Writer(nil).Raw(boardMagic).Byte(byte(len(b.peers) + len(b.others)))
		for i := range b.peers {
			w = b.peers[i].append(w, b.config.Peers[i].Tag())
		}
		for i := range b.others {
			w = b.others[i].append(w, b.others[i].tag)
		}
		if err = b.kv.Set(b.key, w, b.cas); !errors.Is(err, lb.ErrMismatch) {
			return err
		}
	}
	return err
}

// Views returns what this region says about its peers in the answer to a probe.
func (b *Board) Views() ([]View, error) {
	if err := b.read(); err != nil {
		return nil, err
	}
	views := make([]View, len(b.peers))
	for i := range views {
		p, s := &b.config.Peers[i], &b.peers[i]
		views[i] = View{Region: p.Tag(), Hears: s.hears() && !s.gone, Adopts: p.Adopt, Distance: s.distance(p)}
	}
	return views, nil
}

// See takes what this gateway knows now of the servers of a peer, if that is adopted: until it looks again, requests
// are sent to those that are open.
func (b *Board) See(now time.Duration, peer int, servers State) error {
	return b.change(func() bool {
		s := &b.peers[peer]
		if s.isAdopted(&b.config.Peers[peer]) {
			s.servers, s.seen, s.covered = servers, now, s.sent
		}
		return s.isAdopted(&b.config.Peers[peer])
	})
}

// Guess lets one request find out which servers of an adopted peer are open, unless that was seen lately.
func (b *Board) Guess(now time.Duration, peer int) error {
	if err := b.read(); err != nil {
		return err
	}
	if s := &b.peers[peer]; !s.isAdopted(&b.config.Peers[peer]) || s.seen > 0 && now-s.seen < b.config.Interval {
		return nil
	}
	return b.See(now, peer, State{Open: 1})
}

// Adopted reports whether the servers of the peer are served from here, as it was at the latest call.
func (b *Board) Adopted(peer int) bool { return b.peers[peer].isAdopted(&b.config.Peers[peer]) }

// Status is what is known of a peer, for those who watch.
type Status struct {
	State     // of its gateways; while it is adopted, of its servers as they are seen from here
	Available bool
	Adopted   bool          // its servers are served from here
	RTT       time.Duration // measured, or configured as long as no answer came
	Age       time.Duration // of the last answer, negative if there was none
	Ahead     int           // requests that were forwarded since the probe
}

// Peers returns what is known of each peer, in the order of the configuration.
func (b *Board) Peers(now time.Duration) ([]Status, error) {
	if err := b.read(); err != nil {
		return nil, err
	}
	out := make([]Status, len(b.peers))
	for i := range out {
		p, s := &b.config.Peers[i], &b.peers[i]
		out[i] = Status{
			State: s.State, Available: s.available(&b.config, i, now), Adopted: s.isAdopted(p), RTT: s.distance(p),
			Age: now - s.answered, Ahead: s.ahead(),
		}
		if s.answered == 0 {
			out[i].Age = -1
		}
		if out[i].Adopted {
			out[i].State, out[i].Ahead = s.servers, int(s.sent-s.covered)
		}
	}
	return out, nil
}
