package memstore

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Overrides implements [lb.TaskStore]. They are those of all scopes: a gateway has one with tasks.
func (s *Store) Overrides(_ time.Duration, _ string, set *lb.Override, done func([]lb.Override, error)) {
	done(s.override(set))
}

func (s *Store) override(set *lb.Override) ([]lb.Override, error) {
	for range maxTries {
		raw, cas, err := s.kv.Get(overridesKey)
		if err != nil {
			return nil, &storeError{"reading limits set at run time", err}
		}
		list := lb.ReadOverrides(raw)
		if set == nil {
			return list, nil
		}
		list = lb.WithOverride(list, *set)
		packed := append(lb.PackOverrides(list), 0) // no value in shared memory is empty
		if err = s.kv.Set(overridesKey, packed, cas); err == nil {
			return list, nil
		}
		if !errors.Is(err, lb.ErrMismatch) {
			return nil, &storeError{"writing limits set at run time", err}
		}
	}
	return nil, lb.ErrContended
}
