package higresshost

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// Worker is one thread of the gateway. It lives as long as the gateway; its VM may be replaced.
type Worker struct {
	gw      *Gateway
	name    string
	current *root   // takes the new streams; nil before the first configuration and after a shutdown
	roots   []*root // current and draining
	rescued time.Time
	rescues int
	rebuild *fakehost.Timer
}

// Name returns "main" or "worker N".
func (w *Worker) Name() string { return w.name }

// Failed reports whether the VM that would take the next stream has trapped.
func (w *Worker) Failed() bool { return w.current == nil || w.current.vm.failed }

// Recoveries returns how often a trapped VM of this worker was replaced.
func (w *Worker) Recoveries() int { return w.rescues }

// Contexts returns the number of plugin contexts that live on this worker: the current and the draining ones.
func (w *Worker) Contexts() int { return len(w.roots) }

// VMs returns the number of VMs that live on this worker.
func (w *Worker) VMs() int {
	seen := map[*vm]bool{}
	for _, r := range w.roots {
		seen[r.vm] = true
	}
	return len(seen)
}

// Streams returns the open streams of this worker, oldest context first.
func (w *Worker) Streams() []*Stream {
	var out []*Stream
	for _, r := range w.roots {
		out = append(out, r.streams...)
	}
	return out
}

// Trap breaks the VM that takes the streams now, like an out-of-memory outside of their callbacks: streams that wait
// for a response get 503, those in their response are cut, held ones hang, and no callback runs.
func (w *Worker) Trap() {
	w.gw.drive(func() {
		if !w.Failed() {
			w.current.vm.trap(0, "test", errTrap)
		}
	})
}

var errTrap = errors.New("trap ordered by the test")

// adopt makes the gateway's code and configuration current on this thread.
func (w *Worker) adopt() {
	old := w.current
	for _, r := range w.roots {
		// A configuration that still drains is taken back as it is: the host looks contexts up by configuration.
		if r.vm.code == w.gw.code && r.config == w.gw.config && r.alive() && !r.superseded {
			w.current = r
			w.retireIfIdle(old)
			return
		}
	}
	var v *vm
	if old != nil && old.vm.code == w.gw.code && !old.vm.failed {
		v = old.vm
	} else {
		var err error
		if v, err = w.gw.newVM(w, w.gw.code); err != nil {
			w.gw.log(w.name, LogHost, err.Error())
			return
		}
	}
	r, ok := v.newRoot(w.gw.config)
	w.roots = append(w.roots, r)
	w.current = r
	if !ok {
		w.gw.log(w.name, LogHost, "configuration refused after the canary took it")
		v.fail("plugin start failed")
	}
	w.retireIfIdle(old)
	w.watchMemory()
}

func (w *Worker) retireIfIdle(r *root) {
	if r != nil && r != w.current && len(r.streams) == 0 {
		r.retire()
	}
}

// recoverInterval is the least time between two recoveries of one worker's VM.
const recoverInterval = time.Second

// usable returns the root context for a new stream, replacing a trapped VM if the last replacement is long enough ago.
func (w *Worker) usable() *root {
	if w.current != nil && !w.current.vm.failed {
		return w.current
	}
	now := w.gw.Now()
	if w.current == nil || (w.rescues > 0 && now.Sub(w.rescued) < recoverInterval) {
		return nil
	}
	w.rescued = now
	w.rescues++
	w.gw.log(w.name, LogHost, "VM recovered")
	w.adopt()
	if w.current.vm.failed {
		return nil
	}
	return w.current
}

const (
	rebuildInterval = time.Second // between two looks at the memory of a worker's VM
	rebuildMemory   = 800 << 20   // bytes of linear memory above which a VM is replaced
)

// watchMemory replaces a VM that requests it or that has grown too large, at most once a second, as Higress does.
func (w *Worker) watchMemory() {
	if !w.gw.opts.Profile.higress() {
		return
	}
	w.rebuild.Stop()
	w.rebuild = w.gw.clock.After(rebuildInterval, func() {
		if w.current == nil || w.current.vm.failed {
			w.watchMemory()
			return
		}
		v := w.current.vm
		if !v.wantsRebuild && v.mod.Memory().Size() <= rebuildMemory {
			w.watchMemory()
			return
		}
		old := w.current
		w.current = nil
		old.superseded = true
		w.gw.log(w.name, LogHost, "VM rebuilt")
		w.adopt()
		w.retireIfIdle(old)
	})
}
