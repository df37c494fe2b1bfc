package core

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/redisclient"
)

// promptStats compares the prefix index with the KV caches of a cluster's endpoints, as far as one VM knows them.
type promptStats struct {
	user  promptUser          // of the latest request, nil when that is no longer in force
	cfg   *config.Config      // of the latest request
	view  *lb.View            // of the latest request
	sizes learned.PromptSizes // of prompts
}

// promptUser is a configuration of the plugin under which prompts come.
type promptUser interface {
	isInForce() bool
	// warnsFirst reports whether it has not warned of a too small prefix index of the cluster yet.
	warnsFirst(cluster string) bool
}

// usedBy notes the configuration under which the latest prompt came.
func (p *promptStats) usedBy(by promptUser, c *config.Config) { p.user, p.cfg = by, c }

// share returns how much of what the caches of the endpoints hold the prefix index has room to describe, in percent;
// false while that is not known. It counts each block of the index for one endpoint's cache, although a block names up
// to four.
func (p *promptStats) share(view *lb.View) (percent uint64, known bool) {
	if p.cfg.Prefix.CacheTokens == 0 || p.sizes.PerBlock() == 0 || view == nil {
		return 0, false
	}
	var caches float64
	cfg := clusterConfigOf(p.cfg)
	for i := range view.Endpoints {
		caches += cfg.Weight(&view.Endpoints[i]) * float64(p.cfg.Prefix.CacheTokens)
	}
	if caches == 0 {
		return 0, false
	}
	blocks, _ := indexBlocks(p.cfg)
	return uint64(100 * float64(blocks) * p.sizes.PerBlock() / caches), true
}

// indexBlocks returns how many blocks of a cluster's prompts the prefix index has room for, and the key that sets it.
func indexBlocks(c *config.Config) (blocks int, key string) {
	if c.UsesRedis() {
		return redisclient.IndexBlocks(c.Prefix.IndexMemory.Remote), "redis_bytes"
	}
	return memstore.IndexBlocks(c.Prefix.IndexMemory.Local), "table_bytes"
}
