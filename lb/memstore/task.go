package memstore

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// task is a task as it is in a table, 51 bytes:
//
//	offset  size
//	0       16    id
//	16      8     key, 0 for none
//	24      8     hash of its endpoint
//	32      8     when it ends, or is forgotten if it has ended, in ms
//	40      4     for how long it lives unless it is renewed, in ms
//	44      4     tokens that it was charged, and counts while it lives
//	48      2     row in which it is counted while it lives
//	50      1     how it ended, an lb.TaskEnd; 0 while it lives; taskCharged
type task []byte

const taskSize = 51

// taskCharged is the end of a task that was abandoned, and charged when it was completed after that.
const taskCharged = 4

func (t task) id() lb.TaskID            { return lb.TaskID(t[:16]) }
func (t task) key() uint64              { return wire.Uint64(t, 16) }
func (t task) hash() uint64             { return wire.Uint64(t, 24) }
func (t task) until() uint64            { return wire.Uint64(t, 32) }
func (t task) ttl() uint64              { return uint64(wire.Uint32(t, 40)) }
func (t task) tokens() int64            { return int64(wire.Uint32(t, 44)) }
func (t task) row() int                 { return int(wire.Uint16(t, 48)) }
func (t task) end() lb.TaskEnd          { return lb.TaskEnd(t[50]) }
func (t task) lives() bool              { return t.end() == lb.TaskUnknown }
func (t task) setTTL(ttl time.Duration) { wire.PutUint32(t, 40, ttlMillis(ttl)) }

// renew has the task end, or be forgotten, its TTL from now.
func (t task) renew(now uint64) { wire.PutUint64(t, 32, now+t.ttl()) }

// ttlMillis returns a TTL in ms.
func ttlMillis(ttl time.Duration) uint32 {
	return uint32(min(max(ttl/time.Millisecond, 1), math.MaxUint32))
}

// taskMillis returns a time as tasks have it.
func taskMillis(now time.Duration) uint64 { return uint64(now / time.Millisecond) }

// tasks are those of a table, one after the other: those that live, and some that have ended, the latest ones behind.
type tasks []byte

// maxTasks is how many tasks a table has at most; maxEnded is how many of them have ended. Those make room for one that
// lives.
const maxTasks, maxEnded = 4096, 1024

func (ts tasks) n() int        { return len(ts) / taskSize }
func (ts tasks) at(i int) task { return task(ts[i*taskSize:][:taskSize]) }

// find returns the number of the task, -1 for none.
func (ts tasks) find(id lb.TaskID) int {
	for i := range ts.n() {
		if ts.at(i).id() == id {
			return i
		}
	}
	return -1
}

// withKey returns the number of the task with the key that lives, -1 for none.
func (ts tasks) withKey(key uint64) int {
	for i := range ts.n() {
		if t := ts.at(i); key != 0 && t.key() == key && t.lives() {
			return i
		}
	}
	return -1
}

// add adds a task that lives.
func (ts tasks) add(id lb.TaskID, key, hash uint64, now time.Duration, ttl time.Duration, tokens int64, row int) tasks {
	w := wire.Writer(ts).Raw(string(id[:])).Uint64(key).Uint64(hash).Uint64(taskMillis(now) + uint64(ttlMillis(ttl)))
	w = w.Uint32(ttlMillis(ttl)).Uint32(uint32(tokens)).Uint16(uint16(row)).Byte(uint8(lb.TaskUnknown))
	return tasks(w)
}

// withRoom returns the tasks with room for one more, false if too many live.
func (ts tasks) withRoom() (tasks, bool) {
	if ts.n() < maxTasks {
		return ts, true
	}
	_, first := ts.ended()
	if first < 0 {
		return ts, false
	}
	return ts.remove(first), true
}

// remove removes the i-th task.
func (ts tasks) remove(i int) tasks { return append(ts[:i*taskSize], ts[(i+1)*taskSize:]...) }

// ended returns how many tasks have ended, and the number of the one that did first.
func (ts tasks) ended() (n, first int) {
	first = -1
	for i := range ts.n() {
		if !ts.at(i).lives() {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return n, first
}
