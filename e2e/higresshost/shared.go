package higresshost

import "fmt"

// SharedData is the process-wide key-value store of Proxy-Wasm. Higress gives its plugins no vm_id, so all plugins of a
// gateway live in this one namespace; it outlives VMs and configurations. A key cannot be deleted.
type SharedData struct {
	cells map[string]sharedCell
	cas   uint32
}

type sharedCell struct {
	value string
	cas   uint32
}

// Get returns the value and its version, and whether the key was ever set.
func (d *SharedData) Get(key string) (value string, cas uint32, ok bool) {
	c, ok := d.cells[key]
	return c.value, c.cas, ok
}

// Set stores value and reports whether it did. A cas of 0 always overwrites, and so does any cas on a missing key:
// creating is not a compare-and-swap.
func (d *SharedData) Set(key, value string, cas uint32) bool {
	if old, ok := d.cells[key]; ok && cas != 0 && cas != old.cas {
		return false
	}
	d.cas++
	if d.cas == 0 {
		d.cas++
	}
	d.cells[key] = sharedCell{value, d.cas}
	return true
}

// Keys returns the number of keys ever set.
func (d *SharedData) Keys() int { return len(d.cells) }

// sharedQueue wakes only the root context that registered it last.
type sharedQueue struct {
	items []string
	owner *root
}

// queues holds all shared queues of the process; the token is the index plus one.
type queues struct {
	byName map[string]uint32
	list   []*sharedQueue
}

func (q *queues) register(name string, owner *root) uint32 {
	token, ok := q.byName[name]
	if !ok {
		q.list = append(q.list, &sharedQueue{})
		token = uint32(len(q.list))
		q.byName[name] = token
	}
	q.list[token-1].owner = owner
	return token
}

func (q *queues) get(token uint32) *sharedQueue {
	if token == 0 || int(token) > len(q.list) {
		return nil
	}
	return q.list[token-1]
}

func (g *Gateway) enqueue(token uint32, item string) status {
	q := g.queues.get(token)
	if q == nil {
		return statusNotFound
	}
	q.items = append(q.items, item)
	owner := q.owner
	g.post(func() {
		if owner.alive() {
			owner.vm.callback(owner.ctx, "proxy_on_queue_ready", uint64(token))
		}
	})
	return statusOK
}

func (g *Gateway) dequeue(token uint32) (string, status) {
	q := g.queues.get(token)
	if q == nil {
		return "", statusNotFound
	}
	if len(q.items) == 0 {
		return "", statusEmpty
	}
	item := q.items[0]
	q.items = q.items[1:]
	return item, statusOK
}

// QueueLength returns the number of items waiting in the shared queue of that name, 0 if nobody registered it.
func (g *Gateway) QueueLength(name string) int {
	if q := g.queues.get(g.queues.byName[name]); q != nil {
		return len(q.items)
	}
	return 0
}

// violate records something that a real host swallows but that no plugin should do.
func (g *Gateway) violate(format string, args ...any) {
	g.violations = append(g.violations, fmt.Sprintf(format, args...))
}
