package clusters

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
)

// The share follows from the blocks of prompts, their tokens, and the weights of endpoints.
func TestTableShare(t *testing.T) {
	view := &lb.View{Endpoints: []lb.Endpoint{{Addr: "a", Weight: 2}, {Addr: "b"}, {Addr: "c", Weight: 1}}}
	blocks := memstore.IndexBlocks(1 << 20)
	p := PromptStats{Config: &config.Config{
		Prefix:  policy.CacheConfig{IndexMemory: lb.IndexMemory{Local: 1 << 20}, CacheTokens: blocks * 25},
		Weights: map[string]float64{"c": 5},
	}}
	if _, known := p.Share(view); known {
		t.Error("known before any prompt was")
	}
	p.Sizes.Observe(1000, 10)
	if got, known := p.Share(view); got != 50 || !known { // 100 tokens a block, and 2 + 1 + 5 times 25
		t.Errorf("%d %%, %v; want 50", got, known)
	}
	p.Sizes.Observe(0, 0)
	for range 200 {
		p.Sizes.Observe(2000, 10)
	}
	if got, _ := p.Share(view); got < 99 || got > 100 {
		t.Errorf("%d %% with twice as many tokens a block; want 100", got)
	}
	p.Config.Enabled, p.Config.Store, p.Config.Prefix.IndexMemory.Remote = true, config.StoreRedis, 4<<20
	if got, _ := p.Share(view); got < 300 || got > 400 {
		t.Errorf("%d %% with four times the memory in Redis, where more is needed for each block; want 300 to 400", got)
	}
	if _, known := p.Share(&lb.View{}); known {
		t.Error("known without endpoints")
	}
	if _, known := p.Share(nil); known {
		t.Error("known without a view")
	}
}
