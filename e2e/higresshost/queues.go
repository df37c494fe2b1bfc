package higresshost

// sharedQueue is a queue of Proxy-Wasm that all VMs of the process see. It calls the VM that has registered it last, in
// the name of one configuration. A queue is never freed.
type sharedQueue struct {
	values   []string
	listener *root
}

// queueID returns the number of the queue with the name, and whether there is one.
func (g *Gateway) queueID(name string) (id uint32, ok bool) {
	id, ok = g.queueIDs[name]
	return id, ok
}

// registerQueue makes the configuration the one that the queue calls, and returns the queue's number.
func (g *Gateway) registerQueue(r *root, name string) uint32 {
	id, ok := g.queueIDs[name]
	if !ok {
		id = uint32(len(g.queues) + 1)
		g.queueIDs[name] = id
		g.queues = append(g.queues, &sharedQueue{})
	}
	g.queues[id-1].listener = r
	return id
}

func (g *Gateway) queue(id uint32) *sharedQueue {
	if id == 0 || int(id) > len(g.queues) {
		return nil
	}
	return g.queues[id-1]
}

// enqueue appends a value and posts the call of the listener, which is dropped if that has ended by then.
func (g *Gateway) enqueue(id uint32, value string) bool {
	q := g.queue(id)
	if q == nil {
		return false
	}
	q.values = append(q.values, value)
	r := q.listener
	g.post(func() {
		if r.alive() {
			r.vm.callback(r.ctx, "proxy_on_queue_ready", uint64(id))
		}
	})
	return true
}

var queueCalls = []hostCall{
	{name: "register_shared_queue", sig: "iii", fn: func(v *vm, a args) status {
		r, _ := v.context()
		v.put32(a.u32(2), v.gw.registerQueue(r, a.str(v, 0)))
		return statusOK
	}},
	{name: "resolve_shared_queue", sig: "iiiii", fn: func(v *vm, a args) status {
		if a.str(v, 0) != "" { // of another vm_id; Higress gives its plugins none
			return statusNotFound
		}
		id, ok := v.gw.queueID(a.str(v, 2))
		if !ok {
			return statusNotFound
		}
		v.put32(a.u32(4), id)
		return statusOK
	}},
	{name: "enqueue_shared_queue", sig: "iii", fn: func(v *vm, a args) status {
		if !v.gw.enqueue(a.u32(0), a.str(v, 1)) {
			return statusNotFound
		}
		return statusOK
	}},
	{name: "dequeue_shared_queue", sig: "iii", fn: func(v *vm, a args) status {
		q := v.gw.queue(a.u32(0))
		switch {
		case q == nil:
			return statusNotFound
		case len(q.values) == 0:
			return statusEmpty
		}
		value := q.values[0]
		q.values = q.values[1:]
		return a.give(v, 1, []byte(value))
	}},
}
