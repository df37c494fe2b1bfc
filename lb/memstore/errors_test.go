package memstore

import (
	"errors"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// brokenKV is shared memory whose operations return the given errors.
type brokenKV struct {
	lb.KV
	get, set error
}

func (kv brokenKV) Get(string) ([]byte, uint32, error) { return nil, 0, kv.get }

func (kv brokenKV) Set(string, []byte, uint32) error { return kv.set }

func TestFailuresOfSharedMemory(t *testing.T) {
	broken := errors.New("broken")
	const preparing = "memstore: preparing shared memory: broken"
	for _, c := range []struct {
		name string
		run  func() error
		want string
	}{
		{"reading at the start", func() error { return Prepare(brokenKV{get: broken}) }, preparing},
		{"writing at the start", func() error {
			return Prepare(brokenKV{get: lb.ErrNotFound, set: broken})
		}, preparing},
		{"reading the owner directory", func() error {
			return updateDirectory(brokenKV{get: broken}, func(d directory) (directory, error) { return d, nil })
		}, "memstore: reading the owner directory: broken"},
		{"reading a table", func() error {
			_, _, err := (&tables{kv: brokenKV{get: broken}}).get(0)
			return err
		}, "memstore: reading the counts: broken"},
	} {
		err := c.run()
		if !errors.Is(err, broken) || err.Error() != c.want {
			t.Errorf("%s: got %q, want %q, wrapping the error of shared memory", c.name, err, c.want)
		}
	}
}
