package gains

import (
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
)

// The requests of a cluster come to all VMs of a gateway, and Envoy's least_request counts over all workers. So each VM
// records what happens to its requests, and every second appends that to a log in shared memory: a batch for each
// cluster. One VM reads the log ([Ledger]).
//
// A batch is packed as by internal/wire: its length u32; the VM u64, the number of the batch of this VM and cluster
// u32; the cluster and the policy in force there, texts; the endpoints, a varint for how many, each with its address, a
// text, and its slots, a varint; the time u64 from which events count, and the events, a varint for how many, each with
// its kind, a byte, the microseconds since the one before, a varint, and the request, a varint, and where it was sent
// also the place among the endpoints, a varint, 0 for none of them; then, by the label of a model, what streams have
// shown, and cached tokens, each a varint for how many: see appendModels.

// ID is what a VM keeps with a request that is recorded, 0 for none. When the request is over another one gets it.
type ID uint32

// kind is what an event is.
type kind uint8

const (
	comes kind = iota // and waits in the gateway
	sent
	over
	kinds
)

// event is what has happened to a request.
type event struct {
	kind  kind
	place int32 // of the worlds, one more than its number; 0 for none
	at    time.Duration
	of    ID
}

const (
	// maxEvents bounds the events of a VM, of a second and a cluster.
	maxEvents = 1 << 11
	// maxModels bounds the models.
	maxModels = 64
	// maxPerBatch bounds the streams of a batch.
	maxPerBatch = 64
	// maxName bounds the names of clusters, policies and models.
	maxName = 1 << 10
)

// recorded is an event with the address of where a request was sent.
type recorded struct {
	event
	addr string
}

// Recorder records the requests of a cluster in one VM.
type Recorder struct {
	events   []recorded
	unused   []ID
	last     ID
	open     int
	prefills []modelPrefill
	cached   map[string]int64 // tokens, by the label of the model
	number   uint32           // of batches
	lost     bool             // there was too much since the last batch
}

type modelPrefill struct {
	model string
	Prefill
}

// NewRecorder returns a recorder of a cluster.
func NewRecorder() *Recorder {
	return &Recorder{cached: map[string]int64{}}
}

// Come records a request that waits in the gateway. One that was recorded is not again.
func (r *Recorder) Come(at time.Duration, t *ID) {
	if *t != 0 {
		return
	}
	if *t = r.newID(); *t != 0 {
		r.add(recorded{event: event{kind: comes, at: at, of: *t}})
	}
}

// Sent records that a request was sent to an endpoint.
func (r *Recorder) Sent(at time.Duration, t *ID, addr string) {
	if *t == 0 {
		*t = r.newID()
	}
	if *t == 0 {
		return
	}
	r.add(recorded{event{kind: sent, at: at, of: *t}, addr})
}

// Ended records that a request is over, or is not in the gateway's hands any more.
func (r *Recorder) Ended(at time.Duration, t *ID) {
	if *t == 0 {
		return
	}
	r.add(recorded{event: event{kind: over, at: at, of: *t}})
	r.unused = append(r.unused, *t)
	r.open--
	*t = 0
}

// Cached records tokens of a prompt that were found in a KV cache, under the label of its model.
func (r *Recorder) Cached(model string, tokens int64) {
	if _, known := r.cached[model]; known || len(r.cached) < maxModels {
		r.cached[model] += tokens
	}
}

// Prefill records a stream.
func (r *Recorder) Prefill(model string, p Prefill) {
	if len(r.prefills) < maxPerBatch {
		r.prefills = append(r.prefills, modelPrefill{model, p})
	}
}

// Active reports whether there is anything to report.
func (r *Recorder) Active() bool {
	return r.open > 0 || len(r.events)+len(r.cached)+len(r.prefills) > 0 || r.lost
}

// newID returns an ID that no request has, 0 if there are too many.
func (r *Recorder) newID() (t ID) {
	if r.open >= maxOpen {
		r.lost = true
		return 0
	}
	r.open++
	if n := len(r.unused); n > 0 {
		t, r.unused = r.unused[n-1], r.unused[:n-1]
		return t
	}
	r.last++
	return r.last
}

func (r *Recorder) add(e recorded) {
	if len(r.events) >= maxEvents {
		r.lost = true
		return
	}
	r.events = append(r.events, e)
}

// Append appends the batch of what was recorded since the last call. list is the endpoints that there are.
func (r *Recorder) Append(out wire.Writer, vm uint64, cluster, policy string, list []Place) wire.Writer {
	begin := len(out)
	if r.number++; r.lost {
		r.number++ // who reads it sees that there is something missing
		r.lost, r.events = false, r.events[:0]
	}
	out = out.Uint32(0).Uint64(vm).Uint32(r.number).Text(cluster[:min(len(cluster), maxName)]).Text(policy)
	list = list[:min(len(list), maxPlaces/2)]
	numbers := make(map[string]int, len(list))
	out = out.Uvarint(uint64(len(list)))
	for i := range list {
		out = out.Text(list[i].Addr).Uvarint(uint64(max(0, list[i].Slots)))
		numbers[list[i].Addr] = i + 1
	}
	out = r.appendModels(r.appendEvents(out, numbers))
	wire.PutUint32(out, begin, uint32(len(out)-begin))
	clear(r.events)
	r.events, r.prefills = r.events[:0], r.prefills[:0]
	clear(r.cached)
	return out
}

// appendEvents appends the events. numbers are those of endpoints by address, from 1 on.
func (r *Recorder) appendEvents(out wire.Writer, numbers map[string]int) wire.Writer {
	at := time.Duration(0)
	if len(r.events) > 0 {
		at = r.events[0].at
	}
	out = out.Duration(at).Uvarint(uint64(len(r.events)))
	for i := range r.events {
		e := &r.events[i]
		d := max(0, e.at-at) / time.Microsecond
		at += d * time.Microsecond
		if out = out.Byte(byte(e.kind)).Uvarint(uint64(d)).Uvarint(uint64(e.of)); e.kind == sent {
			out = out.Uvarint(uint64(numbers[e.addr]))
		}
	}
	return out
}

// appendModels appends the streams, a varint for how many, each with the label of the model, a text, the time u64, and
// three float64: tokens, seconds, load; and the cached tokens, likewise with the label, a text, and a varint.
func (r *Recorder) appendModels(out wire.Writer) wire.Writer {
	out = out.Uvarint(uint64(len(r.prefills)))
	for i := range r.prefills {
		p := &r.prefills[i]
		out = out.Text(p.model).Duration(p.At).Float64(p.Tokens).Float64(p.Took).Float64(p.Load)
	}
	models := order.Keys(r.cached)
	out = out.Uvarint(uint64(len(models)))
	for _, m := range models {
		out = out.Text(m).Uvarint(uint64(max(0, r.cached[m])))
	}
	return out
}
