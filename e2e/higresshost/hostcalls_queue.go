package higresshost

var queueCalls = []hostCall{
	{name: "register_shared_queue", sig: "iii", fn: func(v *vm, a args) status {
		r, _ := v.context()
		v.put32(a.u32(2), v.gw.queues.register(a.str(v, 0), r.queueReady))
		return statusOK
	}},
	{name: "resolve_shared_queue", sig: "iiiii", fn: func(v *vm, a args) status {
		if a.str(v, 0) != "" { // of another vm_id; Higress gives its plugins none
			return statusNotFound
		}
		id, ok := v.gw.queues.ids[a.str(v, 2)]
		if !ok {
			return statusNotFound
		}
		v.put32(a.u32(4), id)
		return statusOK
	}},
	{name: "enqueue_shared_queue", sig: "iii", fn: func(v *vm, a args) status {
		if !v.gw.queues.enqueue(a.u32(0), a.str(v, 1)) {
			return statusNotFound
		}
		return statusOK
	}},
	{name: "dequeue_shared_queue", sig: "iii", fn: func(v *vm, a args) status {
		q := v.gw.queues.queue(a.u32(0))
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
