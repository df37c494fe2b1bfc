package region

import "time"

// Sent returns how many requests have been forwarded to a peer so far: see [Board.Saw].
func (b *Board) Sent(peer int) (uint32, error) {
	err := b.read()
	return b.peers[peer].sent, err
}

// Saw takes what was known of the servers of a peer at an earlier time, when so many requests had been forwarded there,
// if that peer is adopted and nothing later is known. It reports whether they are open for all that was sent since.
func (b *Board) Saw(at time.Duration, peer int, sent uint32, servers State) (fits bool, err error) {
	err = b.change(func() bool {
		s := &b.peers[peer]
		later := s.adopted && at > s.seen
		if later {
			s.servers, s.seen, s.covered = servers, at, sent
		}
		fits = s.adopted && int(s.sent-s.covered) <= s.servers.Open
		return later
	})
	return fits && err == nil, err
}
