package prefix

import (
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

type (
	turn       = traffic.Turn
	script     = traffic.Script
	prediction = scripted.Prediction
)

// workload is one kind of traffic and its servers.
type workload struct {
	name    string
	kind    string // the name without the load
	about   string // in words
	servers int
	server  vllmsim.Config // what all servers have in common
	n       int            // scripts
	users   int            // scripts under way at once, a closed loop; 0 = an open loop
	span    time.Duration  // of the open loop: in which all scripts begin, each when it is due
	inTurns bool           // a script continues when all others have had their turn; else as soon as it can
	plain   bool           // the completions API: a prompt is one text; else chats
	warm    int            // first turns of each script that are not in the figures: they fill the caches
	write   func(w *workload, seed uint64) []script

	capacity capacity
}

func (w workload) title() string { return w.name }

// scripts returns the traffic. The same seed gives the same.
func (w *workload) scripts(seed uint64) []script { return w.write(w, seed) }

// path returns where requests go, "" for chats.
func (w *workload) path() string {
	if w.plain {
		return "/v1/completions"
	}
	return ""
}

// requests returns how many requests the scripts have together.
func requests(scripts []script) int {
	n := 0
	for i := range scripts {
		n += len(scripts[i].Turns)
	}
	return n
}

// workloads returns all that need no trace.
func workloads() []workload {
	list := []workload{
		sessions(), shared(), trees("trees2", 36, 6, 2), trees("trees24", 12, 3, 2, 4), forty(),
		agents("agents16", 16, 1), agents("agents64", 64, 1), agents("agents16x4", 16, 4), agents("agents64x4", 64, 4),
		completions(), slots(),
	}
	for i := range list {
		list[i].kind = list[i].name
	}
	return list
}

// usual names those that are played unless -workload names others: all take hours.
const usual = "sessions,shared,trees2,trees24,forty,agents16,completions,trace"

// random returns the source of the texts of a workload.
func random(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hash(name)))
}
