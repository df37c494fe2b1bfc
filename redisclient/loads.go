package redisclient

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// maxLoads is how many endpoints may be asked for at once.
const maxLoads = 4000

// Loads asks what is in flight at the endpoints, over all owners of all gateways, as Redis counts it. done is called
// exactly once, with as many loads as there are addresses unless there is an error. It changes nothing, and needs no
// lease. Each command asks for a part of many endpoints.
func (s *Store) Loads(now time.Duration, scope string, addrs []string, done func([]lb.Load, error)) {
	if len(addrs) == 0 || len(addrs) > maxLoads {
		done(nil, lb.ErrNoRoom)
		return
	}
	scope = cmp.Or(s.chosen, scope)
	keys, at := KeysOf(scope), &home{}
	if sc := s.scopes[scope]; sc != nil {
		at = &sc.home
	}
	loads, left, failed := make([]lb.Load, len(addrs)), (len(addrs)+most-1)/most, error(nil)
	for from := 0; from < len(addrs); from += most {
		part := addrs[from:min(from+most, len(addrs))]
		b := scriptLoads.command(nil, 2, len(part))
		b = appendArg(b, keys.Table)
		b = appendArg(b, keys.Rows)
		for _, addr := range part {
			b = appendArg(b, addr)
		}
		s.client.send(now, scriptLoads, at, b, false, func(_ time.Duration, v Value, err error) {
			if err == nil && (v.Kind != Bulk || len(v.Str) != len(part)*tableRow) {
				err = ErrGarbage
			}
			if failed = cmp.Or(failed, err); failed != nil {
				loads = nil
			} else {
				for i := range part {
					loads[from+i] = loadAt(v.Str[i*tableRow:])
				}
			}
			if left--; left == 0 {
				done(loads, failed)
			}
		})
	}
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
