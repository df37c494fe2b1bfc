package region

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Peer is another region, as it is configured.
type Peer struct {
	Name     string
	Distance time.Duration // a round trip, until one was measured: only to choose by
	Adopt    bool          // its servers are served from here while its gateways are gone
}

// Tag identifies the peer in shared memory, in views and in the [Snapshot].
func (p *Peer) Tag() uint32 { return lb.EndpointTag(p.Name) }

// Config is what a region knows of itself and of its peers.
type Config struct {
	Name     string
	Peers    []Peer        // at most MaxPeers
	Interval time.Duration // between two probes of a peer
	Buffer   int           // requests that may wait in a region that others still forward to
	Gone     time.Duration // without an answer, until a peer's servers are adopted
	Steady   time.Duration // of answers, until they are given back
}

// mostMissed is how many probes in a row a peer misses until it is not available.
const mostMissed = 2

// Timeout is how long an answer to a probe is waited for. One that comes later than a probe counts as missed is heard
// all the same, so that a peer that is farther than it was, or than it is configured, becomes available.
const Timeout = time.Second

// timeout returns after what time a probe of the peer counts as missed: three times as long as the measured round trip,
// and the interval at least.
func (s *status) timeout(c *Config) time.Duration {
	if s.rtt == 0 {
		return Timeout
	}
	return min(max(c.Interval, 3*s.rtt), Timeout)
}

// oldest returns how old the last answer of an available peer may be. Beyond that nobody probes, or nobody answers.
func (s *status) oldest(c *Config) time.Duration {
	return (mostMissed+1)*c.Interval + mostMissed*s.timeout(c)
}

// status is what is known of a peer. Times are on the clock of the process, 0 for never.
type status struct {
	State
	answered time.Duration // when the last answer came
	rtt      time.Duration // measured round trip, averaged
	missed   uint32        // probes in a row
	sent     uint32        // requests that this gateway has forwarded there, in all
	counted  uint32        // of these, the ones that were sent before the probe that State answers
	asked    time.Duration // when a probe was last answered, or missed
	since    time.Duration // of the first probe, or of the last answer: how long it has been gone
	steady   time.Duration // since when it has answered every probe, 0 if it missed the last one
	gone     bool
	adopted  bool // from here, when it was last decided
	opinions []opinion
	// of its servers, as this gateway sees them, while it is adopted
	servers State
	seen    time.Duration // when that was
	covered uint32        // of sent, the requests that had been sent by then

	outcomes outcomes // of the requests that were forwarded to its gateways
}

// ahead returns how many requests were sent since the probe that the state answers: the peer does not know of them yet.
func (s *status) ahead() int { return int(s.sent - s.counted) }

// hears reports whether the peer's gateways answer.
func (s *status) hears() bool { return s.answered > 0 && s.missed < mostMissed }

// available reports whether a request may be forwarded to the peer. Requests that were sent since the probe, and this
// one, count as one for each open place, and the others as waiting: so no herd follows an answer. What arrives only
// behind a probe that was sent later is missing in its answer; nothing but that probe tells of it.
//
// To the servers of an adopted peer no more requests are sent than there are open places: what finds none waits here,
// where it may go to either. While its gateways answer again, but not steadily yet, what they say counts too: each side
// knows of its own requests only.
func (s *status) available(c *Config, peer int, now time.Duration) bool {
	if s.isAdopted(&c.Peers[peer]) {
		open := s.servers.Open
		if s.hears() {
			open = min(open, s.Open)
		}
		return s.seen > 0 && now-s.seen <= s.oldest(c) && int(s.sent-s.covered) < open
	}
	return s.hears() && !s.outcomes.pauses(now) && now-s.answered <= s.oldest(c) && s.Open >= 1 &&
		s.Queued+max(0, s.ahead()+1-s.Open) <= c.Buffer
}

// isAdopted reports whether the peer's servers are served from here, by a worker that knows how.
func (s *status) isAdopted(p *Peer) bool { return s.adopted && p.Adopt }

// send counts a request that is forwarded there now.
func (s *status) send(p *Peer, now time.Duration) {
	if s.sent++; !s.isAdopted(p) {
		s.outcomes.send(now)
	}
}

// distance returns how long a round trip takes.
func (s *status) distance(p *Peer) time.Duration {
	if s.rtt > 0 {
		return s.rtt
	}
	return p.Distance
}

// expected returns after what time a request that is forwarded now is likely to be served, with the way there and back.
func (s *status) expected(p *Peer) time.Duration {
	if s.isAdopted(p) {
		return s.distance(p) + s.servers.Wait
	}
	return s.distance(p) + s.Wait
}

// hear takes an answer that came now to a probe that was sent at a time, when so many requests had been forwarded.
func (s *status) hear(c *Config, now, asked time.Duration, counted uint32, a *Answer) {
	s.State, s.asked, s.answered, s.missed, s.since, s.counted = a.State, now, now, 0, now, counted
	s.learn(c, now, a.Views)
	s.measure(max(0, now-asked))
	if s.steady == 0 {
		s.steady = now
	}
	if s.gone && now-s.steady >= c.Steady {
		s.gone = false
	}
}

// measure averages the round trip, as TCP does. The first answers of a peer that was gone may have been held up with
// its gateways: they tell nothing of the distance, by which regions agree on who serves its servers.
func (s *status) measure(rtt time.Duration) {
	switch {
	case s.rtt == 0:
		s.rtt = rtt
	case !s.gone:
		s.rtt += (rtt - s.rtt) / 8
	}
}

// miss takes that a probe was not answered in time.
func (s *status) miss(c *Config, now time.Duration) {
	s.missed++
	s.asked, s.steady = now, 0
	if s.missed >= mostMissed && s.since > 0 && now-s.since >= c.Gone {
		s.gone = true
	}
}

// restart has the times begin anew if nobody has asked for so long that they tell nothing of the peer. It reports
// whether it has.
func (s *status) restart(c *Config, now time.Duration) bool {
	if s.since > 0 && now-max(s.asked, s.since) <= max(c.Gone, s.oldest(c)) {
		return false
	}
	s.asked, s.since, s.steady = now, now, 0
	return true
}
