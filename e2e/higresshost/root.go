package higresshost

import (
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// root is one plugin context: one configuration in one VM.
type root struct {
	vm         *vm
	ctx        uint32
	config     string
	streams    []*Stream
	period     time.Duration
	tick       *fakehost.Timer
	superseded bool // a rebuild took its place although code and configuration are the same
	pending    bool // answered false to done; proxy_done will delete it
	deleted    bool

	httpReply  *HTTPCall // while its callback runs
	redisReply []byte
}

// newRoot makes a root context in the VM: create, VM start, configure. ok is what the plugin returns.
func (v *vm) newRoot(config string) (*root, bool) {
	r := &root{vm: v, ctx: v.allocate(), config: config}
	v.roots[r.ctx] = r
	v.callback(r.ctx, "proxy_on_context_create", 0)
	started, _ := v.callback(r.ctx, "proxy_on_vm_start", 0)
	if started == 0 {
		return r, false
	}
	configured, _ := v.callback(r.ctx, "proxy_on_configure", uint64(len(config)))
	return r, configured != 0 && !v.failed
}

func (v *vm) allocate() uint32 {
	id := v.nextID
	v.nextID++
	return id
}

// alive reports whether the context may still be called.
func (r *root) alive() bool { return r != nil && !r.vm.failed && !r.deleted }

// setPeriod starts, changes or (with 0) stops the tick.
func (r *root) setPeriod(d time.Duration) {
	r.period = d
	r.tick.Stop()
	if d > 0 {
		r.tick = r.vm.gw.clock.After(d, r.onTick)
	}
}

// onTick calls the tick and only then sets the timer again, so that a slow tick never queues another.
func (r *root) onTick() {
	if !r.alive() {
		return
	}
	before := r.tick
	r.vm.callback(r.ctx, "proxy_on_tick")
	if r.tick == before && r.period > 0 {
		r.tick = r.vm.gw.clock.After(r.period, r.onTick)
	}
}

// queueReady is what a shared queue calls.
func (r *root) queueReady(id uint32) {
	if r.alive() {
		r.vm.callback(r.ctx, "proxy_on_queue_ready", uint64(id))
	}
}

// forget drops a stream; a context that is no longer current ends with its last one.
func (r *root) forget(s *Stream) {
	for i, other := range r.streams {
		if other == s {
			r.streams = append(r.streams[:i:i], r.streams[i+1:]...)
			break
		}
	}
	delete(r.vm.streams, s.id)
	r.vm.worker.retireIfIdle(r)
}

// retire calls done on the context. It is deleted now, or when the plugin calls proxy_done.
func (r *root) retire() {
	if r.deleted || r.pending {
		return
	}
	if r.vm.failed {
		r.delete()
		return
	}
	done, _ := r.vm.callback(r.ctx, "proxy_on_done")
	if done == 0 && !r.vm.failed {
		r.pending = true
		return
	}
	r.delete()
}

// delete forgets the context, and the VM with its last one.
func (r *root) delete() {
	r.tick.Stop()
	r.vm.callback(r.ctx, "proxy_on_delete")
	r.deleted = true
	delete(r.vm.roots, r.ctx)
	w := r.vm.worker
	for i, other := range w.roots {
		if other == r {
			w.roots = append(w.roots[:i:i], w.roots[i+1:]...)
			break
		}
	}
	if len(r.vm.roots) == 0 {
		r.vm.kill()
	}
}
