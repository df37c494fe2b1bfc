package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// prompts is what a VM knows of the prompts of a cluster: how its table of them compares with the caches of the model
// servers.
type prompts struct {
	plugin *plugin        // of the latest request, nil when that is no longer in force
	cfg    *config.Config // of the latest request
	view   *lb.View       // of the latest request
	tokens float64        // of a prompt, moving average
	blocks float64        // of a prompt, moving average
	losses uint64         // of caches, counted so far
}

// asked remembers under which configuration prompts come.
func (p *prompts) asked(in *plugin, c *config.Config) { p.plugin, p.cfg = in, c }

// told takes a prompt into account: of so many tokens, as its response told, and so many blocks.
func (p *prompts) told(tokens, blocks int) {
	if tokens > 0 && blocks > 0 {
		p.tokens = toward(p.tokens, float64(tokens), learnedShare)
		p.blocks = toward(p.blocks, float64(blocks), learnedShare)
	}
}

// share returns how much of what the caches of the endpoints hold can be in the table, in percent; false while that is
// not known. A block of the table is taken to describe one endpoint's cache, although it names up to four.
func (p *prompts) share(view *lb.View) (percent uint64, known bool) {
	if p.cfg.Prefix.CacheTokens == 0 || p.blocks == 0 || view == nil {
		return 0, false
	}
	var caches float64
	terms := termsOf(p.cfg)
	for i := range view.Endpoints {
		caches += terms.Weight(&view.Endpoints[i]) * float64(p.cfg.Prefix.CacheTokens)
	}
	if caches == 0 {
		return 0, false
	}
	blocks, _ := tableBlocks(p.cfg)
	return uint64(100 * float64(blocks) * (p.tokens / p.blocks) / caches), true
}

// tableBlocks returns how many blocks of a cluster's prompts are remembered, and the key that says so.
func tableBlocks(c *config.Config) (blocks int, key string) {
	if c.UsesRedis() {
		return redisclient.IndexBlocks(c.Prefix.RedisBytes), "redis_bytes"
	}
	return lb.TableBlocks(c.Prefix.TableBytes), "table_bytes"
}

// publishPrompts sets the gauges of what is known of caches: to 0 once no prompt comes under a configuration in force.
func (v *vm) publishPrompts(cl *cluster) {
	p, label := &cl.prompts, ";cluster="+cl.name
	keeps, losses := cl.caches.Retention()
	if name := statLosses + label; losses > p.losses && v.stats.room(name) {
		v.stats.count(name, losses-p.losses)
		p.losses = losses
	}
	if p.plugin == nil {
		return
	}
	percent, known := p.share(p.view)
	if !slices.Contains(v.live, p.plugin) {
		p.plugin, keeps, percent = nil, 0, 0
	}
	if name := statRetention + label; v.stats.room(name) {
		v.stats.set(name, uint64(keeps/time.Second))
	}
	if name := statTable + label; known && v.stats.room(name) {
		v.stats.set(name, percent)
	}
	if known && percent < 100 && p.plugin != nil && !p.plugin.warned[cl.name] {
		p.plugin.warned[cl.name] = true
		_, key := tableBlocks(p.cfg)
		v.gw.Log(Warn, "cluster="+cl.name+" the table of prompts has room for "+strconv.FormatUint(percent, 10)+
			" % of what the model servers' caches hold: raise lb_config.prefix."+key)
	}
}
