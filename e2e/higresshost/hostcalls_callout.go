package higresshost

import (
	"encoding/json"
	"fmt"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

var calloutCalls = []hostCall{
	{name: "http_call", sig: "iiiiiiiiii", fn: func(v *vm, a args) status {
		r, _ := v.context()
		headers, err := unmarshalPairs(a.bytes(v, 2))
		if err != nil {
			return statusBadArgument
		}
		call := &HTTPCall{
			Cluster: a.str(v, 0), Headers: headers, Body: a.bytes(v, 4), Timeout: a.millis(8),
		}
		st := r.dispatchHTTP(call)
		if st == statusOK {
			v.put32(a.u32(9), call.token)
		}
		return st
	}},
}

// hostPairs is the answer of get_upstream_hosts.
func hostPairs(c *fakehost.Cluster) [][2]string {
	var out [][2]string
	for _, e := range c.Endpoints() {
		state, err := json.Marshal(map[string]string{"health_status": string(e.Health), "metrics": e.Metrics})
		if err != nil {
			panic(fmt.Sprintf("higresshost: host state: %v", err)) // strings always marshal
		}
		out = append(out, [2]string{e.Addr, string(state)})
	}
	return out
}

var higressCalls = []hostCall{
	{name: "redis_init", sig: "iiiiiii", higress: true, fn: func(v *vm, a args) status {
		return v.gw.initRedis(v.worker, a.str(v, 0), RedisInit{
			User: a.str(v, 2), Password: a.str(v, 4), Timeout: a.millis(6),
		})
	}},
	{name: "redis_call", sig: "iiiii", higress: true, fn: func(v *vm, a args) status {
		r, _ := v.context()
		call := &RedisCall{Query: a.bytes(v, 2)}
		st := r.dispatchRedis(a.str(v, 0), call)
		if st == statusOK {
			v.put32(a.u32(4), call.token)
		}
		return st
	}},
	{name: "get_upstream_hosts", sig: "ii", higress: true, fn: func(v *vm, a args) status {
		_, s := v.context()
		if s == nil {
			return statusNotFound
		}
		c := v.gw.host.Clusters[s.Cluster]
		if c == nil {
			return statusNotFound
		}
		pairs := hostPairs(c)
		if len(pairs) == 0 {
			return a.give(v, 0, nil)
		}
		return a.give(v, 0, marshalPairs(pairs))
	}},
	{name: "set_upstream_override_host", sig: "ii", higress: true, fn: func(v *vm, a args) status {
		_, s := v.context()
		address := a.str(v, 0)
		switch {
		case s == nil:
			v.gw.violate("set_upstream_override_host in a plugin context")
		case s.Routed:
			v.gw.violate("set_upstream_override_host(%s) after the router has chosen %s", address, s.Upstream())
		default:
			s.Override = address
		}
		return statusOK // the real host drops the result too, so a bad address is never reported
	}},
}
