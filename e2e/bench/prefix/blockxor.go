package prefix

import (
	"crypto/sha1"
	"sync"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// blockXOR is the published way of affinity for gateways in front of LLMs: a prompt is cut after each message of the
// user, a block's SHA-1 is combined with those before it by XOR, and the prompt goes where the longest known
// combination went last. The load there is ignored; it decides only where a prompt goes whose beginning is unknown. It
// may be used by several goroutines.
type blockXOR struct {
	mu       sync.Mutex
	known    map[blockKey]int // -> server
	inflight []int            // by server
	turn     int              // the server to begin with among equals
}

type blockKey [sha1.Size]byte

func newBlockXOR(servers int) *blockXOR {
	return &blockXOR{known: map[blockKey]int{}, inflight: make([]int, servers)}
}

// choose returns the server for a prompt and counts it as under way until done is called.
func (b *blockXOR) choose(messages []loadgen.Message) (server int, done func()) {
	keys := blockKeys(messages)
	b.mu.Lock()
	defer b.mu.Unlock()
	matched := 0
	for _, k := range keys {
		at, ok := b.known[k]
		if !ok {
			break
		}
		server = at
		matched++
	}
	if matched == 0 {
		server = b.leastBusy()
	}
	for _, k := range keys[matched:] {
		b.known[k] = server
	}
	b.inflight[server]++
	return server, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inflight[server]--
	}
}

// leastBusy returns the server with the fewest requests under way, taking turns among equals.
func (b *blockXOR) leastBusy() int {
	n := len(b.inflight)
	least := b.turn % n
	for i := range n {
		if at := (b.turn + i) % n; b.inflight[at] < b.inflight[least] {
			least = at
		}
	}
	b.turn++
	return least
}

// blockKeys returns the combined key of each block, root first.
func blockKeys(messages []loadgen.Message) []blockKey {
	var keys []blockKey
	var sum blockKey
	block := sha1.New()
	for i, m := range messages {
		block.Write([]byte(m.Role + ":" + m.Content)) // a hash never fails to be written
		if m.Role != "user" && i < len(messages)-1 {
			continue
		}
		for k, x := range block.Sum(nil) {
			sum[k] ^= x
		}
		keys = append(keys, sum)
		block.Reset()
	}
	return keys
}
