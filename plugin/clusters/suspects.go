package clusters

import "time"

const (
	// suspectFor is for how long all streams of an endpoint are read to their ends, after one that had none.
	suspectFor = time.Minute
	// maxSuspects is how many such endpoints of a cluster are remembered.
	maxSuspects = 256
)

// Suspect has streams of the endpoint read to their ends from now on.
func (cl *Cluster) Suspect(now time.Duration, addr string) {
	if len(cl.suspects) >= maxSuspects {
		clear(cl.suspects)
	}
	cl.suspects[addr] = now + suspectFor
}

// IsSuspect reports whether streams of the endpoint are read to their ends.
func (cl *Cluster) IsSuspect(now time.Duration, addr string) bool {
	until, ok := cl.suspects[addr]
	return ok && now < until
}
