package clusters

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/redisclient"
)

// PromptStats compares the prefix index with the KV caches of a cluster's endpoints, as far as one VM knows them.
type PromptStats struct {
	User   PromptUser          // of the latest request, nil when that is no longer in force
	Config *config.Config      // of the latest request
	View   *lb.View            // of the latest request
	Sizes  learned.PromptSizes // of prompts
}

// PromptUser is a configuration of the plugin under which prompts come.
type PromptUser interface {
	IsInForce() bool
	// WarnsFirst reports whether it has not warned of a too small prefix index of the cluster yet.
	WarnsFirst(cluster string) bool
}

// UsedBy notes the configuration under which the latest prompt came.
func (p *PromptStats) UsedBy(by PromptUser, c *config.Config) { p.User, p.Config = by, c }

// Share returns how much of what the caches of the endpoints hold the prefix index has room to describe, in percent;
// false while that is not known. It counts each block of the index for one endpoint's cache, although a block names up
// to four.
func (p *PromptStats) Share(view *lb.View) (percent uint64, known bool) {
	if p.Config.Prefix.CacheTokens == 0 || p.Sizes.PerBlock() == 0 || view == nil {
		return 0, false
	}
	var caches float64
	cfg := clusterConfigOf(p.Config)
	for i := range view.Endpoints {
		caches += cfg.Weight(&view.Endpoints[i]) * float64(p.Config.Prefix.CacheTokens)
	}
	if caches == 0 {
		return 0, false
	}
	blocks, _ := IndexBlocks(p.Config)
	return uint64(100 * float64(blocks) * p.Sizes.PerBlock() / caches), true
}

// IndexBlocks returns how many blocks of a cluster's prompts the prefix index has room for, and the key that sets it.
func IndexBlocks(c *config.Config) (blocks int, key string) {
	if c.UsesRedis() {
		return redisclient.IndexBlocks(c.Prefix.IndexMemory.Remote), "redis_bytes"
	}
	return memstore.IndexBlocks(c.Prefix.IndexMemory.Local), "table_bytes"
}
