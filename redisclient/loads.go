package redisclient

import (
	"encoding/binary"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// maxLoads is of how many endpoints one command asks: scripts cannot pass on many more.
const maxLoads = 4000

// Loads asks what is in flight at the endpoints, over all owners of all gateways, as Redis counts it. done is called exactly once, with
// as many loads as there are addresses unless there is an error. It changes nothing, and needs no lease.
func (s *Store) Loads(now time.Duration, scope string, addrs []string, done func([]lb.Load, error)) {
	if len(addrs) == 0 || len(addrs) > maxLoads {
		done(nil, lb.ErrNoRoom)
		return
	}
	keys, at := KeysOf(scope), &home{}
	if sc := s.scopes[scope]; sc != nil {
		at = &sc.home
	}
	b := scriptLoads.command(nil, 2, len(addrs))
	b = appendArg(b, keys.Table)
	b = appendArg(b, keys.Rows)
	for _, addr := range addrs {
		b = appendArg(b, addr)
	}
	s.client.send(now, scriptLoads, at, b, false, func(_ time.Duration, v Value, err error) {
		if err == nil && (v.Kind != Bulk || len(v.Str) != len(addrs)*tableRow) {
			err = ErrGarbage
		}
		if err != nil {
			done(nil, err)
			return
		}
		loads := make([]lb.Load, len(addrs))
		for i := range loads {
			loads[i] = loadAt(v.Str[i*tableRow:])
		}
		done(loads, nil)
	})
}

// loadAt reads a row of a table.
func loadAt(row []byte) lb.Load {
	var n [16]byte
	copy(n[:3], row)
	copy(n[8:14], row[3:])
	return lb.Load{
		Requests: int64(binary.LittleEndian.Uint64(n[:8])), Tokens: int64(binary.LittleEndian.Uint64(n[8:])),
	}
}
