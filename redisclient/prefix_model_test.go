package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb/prompt"
)

// runsModel is what prefix.lua keeps, by the key of a run's first block, written from its description once more.
type runsModel map[uint64][]byte

const (
	modelEntry = 32
	modelMost  = 64
	modelFresh = 8
)

func endpointOf(addr string) uint32 { return uint32(xxhash.Sum64String(addr)) }

// tickNow returns what the clock of a server on this machine says.
func tickNow() uint16 { return uint16(time.Now().Unix() / 4) }

// parts cuts blocks into runs: 2, 2, 4, 8, and from then on 16.
func parts(blocks []prompt.Block) (out [][]prompt.Block) {
	for _, n := range []int{2, 2, 4, 8, 16, 16, 16, 16, 16, 16, 16} {
		if n = min(n, len(blocks)); n > 0 {
			out = append(out, blocks[:n])
			blocks = blocks[n:]
		}
	}
	return out
}

// seek returns the entry of a block, nil if there is none. It points into the run.
func (m runsModel) seek(run uint64, block uint64) []byte {
	for r := m[run]; len(r) >= modelEntry; r = r[modelEntry:] {
		if binary.LittleEndian.Uint64(r) == block {
			return r[:modelEntry]
		}
	}
	return nil
}

// match returns how many of the blocks each endpoint has.
func (m runsModel) match(blocks []prompt.Block, ttl time.Duration, now uint16) map[uint32]int {
	held, n := map[uint32]int{}, 0
	for _, part := range parts(blocks) {
		found := false
		for _, b := range part {
			n++
			e := m.seek(part[0].Key, b.Key)
			for i := 8; i < len(e); i += 6 {
				endpoint, seen := binary.LittleEndian.Uint32(e[i:]), binary.LittleEndian.Uint16(e[i+4:])
				if endpoint != 0 && time.Duration(now-seen)*4*time.Second <= ttl {
					held[endpoint], found = n, true
				}
			}
		}
		if !found {
			break
		}
	}
	return held
}

// noted returns the holders with the endpoint in front, nil if they stay as they are.
func noted(holders []byte, endpoint uint32, now uint16) []byte {
	place := 18
	for i := 0; i < 24; i += 6 {
		holder, age := binary.LittleEndian.Uint32(holders[i:]), now-binary.LittleEndian.Uint16(holders[i+4:])
		switch {
		case holder == 0:
		case holder == endpoint && age < modelFresh, i == 18 && age < modelFresh:
			return nil
		case holder != endpoint:
			continue
		}
		place = i
		break
	}
	out := binary.LittleEndian.AppendUint32(nil, endpoint)
	out = binary.LittleEndian.AppendUint16(out, now)
	out = append(out, holders[:place]...)
	return append(out, holders[place+6:]...)
}

// note remembers that the endpoint has the blocks.
func (m runsModel) note(blocks []prompt.Block, endpoint uint32, now uint16) {
	for _, part := range parts(blocks) {
		var front []byte
		changed := false
		for _, b := range part {
			holders := make([]byte, 24)
			if e := m.seek(part[0].Key, b.Key); e != nil {
				holders = e[8:]
			}
			if anew := noted(holders, endpoint, now); anew != nil {
				holders, changed = anew, true
			}
			front = append(binary.LittleEndian.AppendUint64(front, b.Key), holders...)
		}
		if !changed {
			continue
		}
		rest := bytes.Clone(m[part[0].Key])
		for _, b := range part {
			rest = without(rest, b.Key)
		}
		front = append(front, rest...)
		m[part[0].Key] = front[:min(len(front), modelMost*modelEntry)]
	}
}

// without returns the run without a block's entry.
func without(run []byte, block uint64) []byte {
	for at := 0; at+modelEntry <= len(run); at += modelEntry {
		if binary.LittleEndian.Uint64(run[at:]) == block {
			return append(run[:at], run[at+modelEntry:]...)
		}
	}
	return run
}

// forget takes back that the endpoint has more than the first n blocks.
func (m runsModel) forget(blocks []prompt.Block, endpoint uint32, n int) {
	for _, part := range parts(blocks) {
		first := part[0].Key
		for _, b := range part {
			if n--; n >= 0 {
				continue
			}
			e := m.seek(first, b.Key)
			for i := 8; i < len(e); i += 6 {
				if binary.LittleEndian.Uint32(e[i:]) == endpoint {
					copy(e[i:], e[i+6:])
					clear(e[modelEntry-6:])
					if bytes.Equal(e[8:], make([]byte, 24)) {
						m[first] = without(m[first], b.Key)
					}
					break
				}
			}
		}
		if len(m[first]) == 0 {
			delete(m, first)
		}
	}
}
