package higresshost

// sharedQueue is a queue of Proxy-Wasm that all VMs of the process see. It calls the VM that has registered it last, in
// the name of one configuration. A queue is never freed.
type sharedQueue struct {
	values []string
	ready  func(id uint32) // calls the listener, unless that has ended
}

// sharedQueues are those of the process: queue n is the one before index n.
type sharedQueues struct {
	post   func(fn func()) // runs it once the guest that is running now has returned
	queues []*sharedQueue
	ids    map[string]uint32
}

// register makes ready what the queue with the name calls, and returns the queue's number.
func (q *sharedQueues) register(name string, ready func(id uint32)) uint32 {
	id, ok := q.ids[name]
	if !ok {
		if q.ids == nil {
			q.ids = map[string]uint32{}
		}
		id = uint32(len(q.queues) + 1)
		q.ids[name] = id
		q.queues = append(q.queues, &sharedQueue{})
	}
	q.queues[id-1].ready = ready
	return id
}

func (q *sharedQueues) queue(id uint32) *sharedQueue {
	if id == 0 || int(id) > len(q.queues) {
		return nil
	}
	return q.queues[id-1]
}

// enqueue appends a value and posts the call of the listener. It reports whether there is such a queue.
func (q *sharedQueues) enqueue(id uint32, value string) bool {
	to := q.queue(id)
	if to == nil {
		return false
	}
	to.values = append(to.values, value)
	ready := to.ready
	q.post(func() { ready(id) })
	return true
}
