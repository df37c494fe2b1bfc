package region

import (
	"slices"
	"time"
)

// opinion is what a peer says of another region. The peer may have several gateways, each of which answers some of the
// probes and knows only what it has heard itself. So it is put together from what they said lately.
type opinion struct {
	region   uint32        // as in a View
	heard    time.Duration // when one of them said last that it hears that region, 0 for never
	told     time.Duration // when one said last that it would adopt it and does not hear it, 0 for never
	distance time.Duration // the least of those
}

// hears reports whether one of the peer's gateways has heard the region lately: while others say nothing of it, it is
// not gone.
func (o *opinion) hears(c *Config, s *status, now time.Duration) bool {
	return o.heard > 0 && now-o.heard <= max(c.Gone, s.oldest(c))
}

// adopts reports whether one of the peer's gateways would adopt the region, as it said lately. Several of them have to
// be asked until the nearest has answered.
func (o *opinion) adopts(c *Config, s *status, now time.Duration) bool {
	return o.told > 0 && now-o.told <= max(c.Gone, s.oldest(c))+c.Steady
}

// learn takes what one of the peer's gateways says of other regions.
func (s *status) learn(c *Config, now time.Duration, views []View) {
	s.opinions = slices.DeleteFunc(s.opinions, func(o opinion) bool {
		return !o.hears(c, s, now) && !o.adopts(c, s, now)
	})
	for _, v := range views {
		i := slices.IndexFunc(s.opinions, func(o opinion) bool { return o.region == v.Region })
		if i < 0 {
			if !v.Hears && !v.Adopts || len(s.opinions) == MaxPeers {
				continue
			}
			i, s.opinions = len(s.opinions), append(s.opinions, opinion{region: v.Region})
		}
		o := &s.opinions[i]
		switch {
		case v.Hears:
			o.heard = now
		case v.Adopts && (v.Distance <= o.distance || !o.adopts(c, s, now)):
			o.distance, o.told = v.Distance, now
		}
	}
}

// asTold returns a distance as it is told other regions: who compares their distances has to compare what both know.
func asTold(d time.Duration) time.Duration { return time.Duration(milliseconds(d)) * time.Millisecond }

// adopts reports whether the servers of a peer that is gone are served from here: if this region is configured to, no
// other region has heard the peer's gateways lately, and none that would adopt it is nearer. What another region has
// said counts also while it misses probes itself, for as long as it is not gone: it may be busy for a moment. A region
// that adopts gives up to a nearer one only after that has answered steadily.
func adopts(c *Config, all []status, peer int, now time.Duration) bool {
	if !c.Peers[peer].Adopt || !all[peer].gone {
		return false
	}
	own, tag := asTold(all[peer].distance(&c.Peers[peer])), c.Peers[peer].Tag()
	for i := range all {
		s := &all[i]
		if i == peer {
			continue
		}
		there := s.hears() || !s.gone
		settled := !all[peer].adopted || s.steady > 0 && now-s.steady >= c.Steady
		for _, o := range s.opinions {
			nearer := o.distance < own || o.distance == own && c.Peers[i].Name < c.Name
			if o.region == tag && (o.hears(c, s, now) || there && o.adopts(c, s, now) && nearer && settled) {
				return false
			}
		}
	}
	return true
}
