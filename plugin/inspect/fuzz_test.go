package inspect

import (
	"testing"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// Whatever is in shared memory is read without a crash, and in bounded time.
func FuzzTold(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte("\x01a\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00\x01\x01b\x01z\x01h"), make([]byte, 8))
	f.Fuzz(func(t *testing.T, clusters, decisions []byte) {
		for _, c := range readFacts(clusters, []*config.Config{{}}) {
			if len(c.endpoints) > len(clusters) {
				t.Errorf("%d endpoints in %d bytes", len(c.endpoints), len(clusters))
			}
		}
		g, vms := newVMs(t, 1)
		vms[0].watch.begin(g.now)
		vms[0].watch.tick(g.now)
		told := wire.Writer(nil).Uint64(1).Raw(string(decisions))
		if err := g.kv.Set(slotKey(process.KeyDecisions, 0), told, 0); err != nil {
			t.Fatal(err)
		}
		vms[0].Decisions.toldSince(g.now, 0)
		if err := g.kv.Set(process.KeyWatch, clusters, 0); err != nil {
			t.Fatal(err)
		}
		vms[0].watch.begin(g.now)
		vms[0].watch.tick(g.now)
	})
}
