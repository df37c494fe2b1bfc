package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Overrides implements [lb.TaskStore]. It does not make the caller an owner.
func (s *Store) Overrides(now time.Duration, scope string, set *lb.Override, done func([]lb.Override, error)) {
	keys, node := s.placeOf(scope)
	args := [][]byte(nil)
	if set != nil {
		packed := lb.PackOverrides([]lb.Override{*set})
		target, limits := packed[:8], packed[8:]
		if set.IsNone() {
			limits = nil
		}
		args = [][]byte{target, limits}
	}
	b := appendArg(scriptOverrides.command(nil, 1, len(args)), keys.Overrides)
	for _, arg := range args {
		b = appendArg(b, arg)
	}
	s.owner.client.send(now, scriptOverrides, node, b, false, func(_ time.Duration, v Value, err error) {
		if err == nil && v.Kind != Bulk {
			err = ErrGarbage
		}
		if err != nil {
			done(nil, err)
			return
		}
		done(lb.ReadOverrides(v.Str), nil)
	})
}
