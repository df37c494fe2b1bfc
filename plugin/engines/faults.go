package engines

import (
	"time"

	"github.com/warmgate/warmgate/plugin/host"
)

const (
	// maxFaults is how many faults are remembered as logged.
	maxFaults = 256
	// faultEvery is how often a fault that lasts is logged again.
	faultEvery = 10 * time.Minute
)

// faults are what was logged of engines.
type faults struct {
	env      *host.Env
	loggedAt map[string]time.Duration // by cluster and text: when it was last logged
}

// log logs what is wrong with an engine, once.
func (f *faults) log(now time.Duration, cluster, text string) {
	key := cluster + " " + text
	if at, logged := f.loggedAt[key]; logged && now-at < faultEvery {
		return
	}
	if len(f.loggedAt) >= maxFaults {
		for k, at := range f.loggedAt {
			if now-at >= faultEvery {
				delete(f.loggedAt, k)
			}
		}
		if len(f.loggedAt) >= maxFaults {
			return
		}
	}
	f.loggedAt[key] = now
	f.env.GW.Log(host.Warn, "cluster="+cluster+" "+text)
}
