package region

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

// SignProbe returns the text by which one region asks another at a time since the Unix epoch.
func (k *Key) SignProbe(from, to string, wall time.Duration, nonce uint64) string {
	r := Route{from, to, wall, nonce}
	return k.seal(probeKind, r.append(k.values()), "")
}

// ReadProbe returns which region asks this one, at a time since the Unix epoch. It may be a replay: see [Replays]. With
// ErrElsewhere and ErrStale it returns what was signed.
func (k *Key) ReadProbe(text, self string, wall time.Duration) (Route, error) {
	values, err := k.open(probeKind, text, "")
	if err != nil {
		return Route{}, err
	}
	return readWhole(values, self, wall)
}

// Limits of the numbers in an answer. What is beyond them is absurd, and the answer is refused.
const (
	MaxOpen   = 1 << 16
	MaxQueued = 1 << 20
	MaxWait   = time.Hour
	MaxPeers  = 16
)

// State is what a region says about itself.
type State struct {
	Open   int           // requests that the endpoints take before they are full
	Queued int           // requests that wait
	Wait   time.Duration // which a request that comes now is expected to have, ms
}

// View is what a region says about another: see [Prober].
type View struct {
	Region   uint32 // lb.EndpointTag of its name
	Hears    bool   // its gateways answer
	Adopts   bool   // its servers would be served from the region that says so
	Distance time.Duration
}

const (
	viewHears  = 1
	viewAdopts = 2
)

func (v *View) flags() (flags byte) {
	if v.Hears {
		flags |= viewHears
	}
	if v.Adopts {
		flags |= viewAdopts
	}
	return flags
}

// setFlags sets what flags has returned.
func (v *View) setFlags(flags byte) { v.Hears, v.Adopts = flags&viewHears > 0, flags&viewAdopts > 0 }

// viewSize is the least bytes of a view.
const viewSize = 6

// SignAnswer returns the text that answers a probe, at a time since the Unix epoch. Numbers beyond the limits are sent
// as the limits.
func (k *Key) SignAnswer(probe *Route, wall time.Duration, s State, views []View) string {
	back := Route{probe.To, probe.From, wall, probe.Nonce}
	w := back.append(k.values()).Uvarint(uint64(min(max(0, s.Open), MaxOpen))).
		Uvarint(uint64(min(max(0, s.Queued), MaxQueued))).Uvarint(milliseconds(s.Wait))
	views = views[:min(len(views), MaxPeers)]
	w = w.Uvarint(uint64(len(views)))
	for _, v := range views {
		w = w.Uint32(v.Region).Byte(v.flags()).Uvarint(milliseconds(v.Distance))
	}
	return k.seal(answerKind, w, "")
}

// milliseconds returns a time within the limit.
func milliseconds(d time.Duration) uint64 { return uint64(min(max(0, d), MaxWait).Milliseconds()) }

// Answer is what a region has answered.
type Answer struct {
	Route
	State
	Views []View
}

// ReadAnswer returns an answer to this region at a time since the Unix epoch. Whether it was asked for, its reader has
// to know.
func (k *Key) ReadAnswer(text, self string, wall time.Duration) (Answer, error) {
	values, err := k.open(answerKind, text, "")
	if err != nil {
		return Answer{}, err
	}
	r := wire.NewReader(values)
	var a Answer
	if a.Route, err = readRoute(&r, self, wall); err != nil {
		return Answer{}, err
	}
	n := numbers{r: &r}
	a.State = State{Open: n.upTo(MaxOpen), Queued: n.upTo(MaxQueued), Wait: n.time()}
	views := r.Count(viewSize)
	if views > MaxPeers {
		return Answer{}, ErrAbsurd
	}
	for range views {
		v := View{Region: r.Uint32()}
		v.setFlags(r.Byte())
		v.Distance = n.time()
		a.Views = append(a.Views, v)
	}
	switch {
	case !r.OK() || r.Len() > 0:
		return Answer{}, ErrMalformed
	case n.absurd:
		return Answer{}, ErrAbsurd
	}
	return a, nil
}

// numbers reads numbers within limits.
type numbers struct {
	r      *wire.Reader[[]byte]
	absurd bool
}

func (n *numbers) upTo(limit uint64) int {
	v := n.r.Uvarint()
	n.absurd = n.absurd || v > limit
	return int(min(v, limit))
}

func (n *numbers) time() time.Duration {
	return time.Duration(n.upTo(uint64(MaxWait.Milliseconds()))) * time.Millisecond
}
