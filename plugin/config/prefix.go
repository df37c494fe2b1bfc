package config

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

// promptKeys are the keys of how prompts are cut into blocks.
var promptKeys = []key{
	{Key: setting.Key{
		Name: "lb_config.prefix.block_bytes", Type: setting.Size, Min: 64, Max: 64 << 10, Default: "512",
		Title: setting.Doc("Block length", "块长度"),
		Meaning: setting.Doc(
			"prefix_cache: length of the first blocks of a prompt, within which a difference is not noticed",
			"prefix_cache：提示词最前面各块的长度，块内的差异察觉不到",
		),
		Field: func(s any) any { return &s.(*Config).Prefix.BlockBytes },
	}},
	{Key: setting.Key{
		Name: "lb_config.prefix.cache_tokens", Type: setting.Integer, Min: 0, Max: 1e9, Default: "0",
		Title: setting.Doc("Tokens of a KV cache", "KV 缓存的 token 数"),
		Meaning: setting.Doc(
			"prefix_cache: tokens that the KV cache of an endpoint of weight 1 holds, to show which share "+
				"of them the index of prompts has room for; vLLM: `num_gpu_blocks` × `block_size`; 0: unknown",
			"prefix_cache：权重为 1 的端点的 KV 缓存能容纳多少 token，用于显示其中多大比例能被记住；vLLM："+
				"`num_gpu_blocks` × `block_size`；0：未知",
		),
		Field: func(s any) any { return &s.(*Config).Prefix.CacheTokens },
	}},
	{Key: setting.Key{
		Name: "lb_config.prefix.tenant_header", Type: setting.Text,
		Title: setting.Doc("Tenant header", "租户请求头"),
		Meaning: setting.Doc(
			"prefix_cache: requests with different values of this header share no prefix, and get a fair "+
				"part of the index each. A proxy in front must set it",
			"prefix_cache：此请求头取值不同的请求不共享前缀，并各自公平占有记录表的一部分。须由前面的代理设置",
		),
		Field: func(s any) any { return &s.(*Config).Prefix.TenantHeader },
	}},
	{Key: setting.Key{
		Name: "lb_config.prefix.secret", Type: setting.Secret,
		Title: setting.Doc("Secret", "密钥"),
		Meaning: setting.Doc(
			"prefix_cache: keys of prompts cannot be forged without it; the same in all gateways. "+
				"Default: derived from the Redis password, or random",
			"prefix_cache：没有它就无法伪造提示词的键；所有网关须相同。默认由 Redis 密码推导，或随机生成",
		),
		Field: func(s any) any { return &s.(*Config).Prefix.Secret },
	}},
}

// String shows no secret, so that a Config printed by mistake shows none.
func (p Prefix) String() string {
	return strconv.Itoa(p.BlockBytes) + " bytes a block, credit " + strconv.FormatFloat(p.Credit, 'g', -1, 64) +
		", kept for " + strconv.Itoa(int(p.TTL/time.Second)) + " s in " + strconv.Itoa(p.IndexMemory.Local) +
		" bytes, in Redis in " + strconv.Itoa(p.IndexMemory.Remote) + ", tenant header " + strconv.Quote(p.TenantHeader)
}

// GoString is String, for the same reason.
func (p Prefix) GoString() string { return p.String() }
