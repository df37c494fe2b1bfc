package lb

import (
	"errors"
	"testing"
)

// brokenKV is shared memory with one failing operation.
type brokenKV struct {
	KV
	get, set error
}

func (kv brokenKV) Get(string) ([]byte, uint32, error) { return nil, 0, kv.get }

func (kv brokenKV) Set(string, []byte, uint32) error { return kv.set }

func TestFailuresOfSharedMemory(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		run  func() error
		want string
	}{
		{
			"reading at the start", func() error { return Prepare(brokenKV{get: broken}) },
			"lb: preparing shared memory: broken",
		},
		{
			"writing at the start", func() error { return Prepare(brokenKV{get: ErrNotFound, set: broken}) },
			"lb: preparing shared memory: broken",
		},
		{"reading the roster", func() error {
			return swapRoster(brokenKV{get: broken}, func(r roster) (roster, error) { return r, nil })
		}, "lb: reading the roster: broken"},
		{"reading a table", func() error {
			_, _, err := (&MemStore{kv: brokenKV{get: broken}}).get(0)
			return err
		}, "lb: reading the counts: broken"},
	} {
		err := c.run()
		if !errors.Is(err, broken) || err.Error() != c.want {
			t.Errorf("%s: got %q, want %q, wrapping the error of shared memory", c.name, err, c.want)
		}
	}
}
