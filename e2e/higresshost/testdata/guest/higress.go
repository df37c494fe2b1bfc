//go:build !envoy

package main

import (
	"fmt"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

const redisCluster = "redis.static"

// higress runs the operations that only Higress offers.
func (s *stream) higress(op string, arg []string) {
	switch op {
	case "hosts":
		hosts, err := proxywasm.GetUpstreamHosts()
		report(op, fmt.Sprint(hosts), err)
	case "override":
		report(op, "", proxywasm.SetUpstreamOverrideHost([]byte(arg[0])))
	case "redis_init":
		report(op, "", proxywasm.RedisInit(redisCluster+"?db=0", "user", "secret", 200))
	case "redis":
		_, err := proxywasm.DispatchRedisCall(redisCluster, []byte(arg[0]+"\r\n"), func(status, size int) {
			b, err := proxywasm.GetRedisCallResponse(0, size)
			report("redis reply", fmt.Sprintf("%d %q", status, b), err)
			report("resume", "", proxywasm.ResumeHttpRequest())
		})
		report(op, "", err)
	default:
		proxywasm.LogError("unknown operation " + op)
	}
}
