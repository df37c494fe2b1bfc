package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/core"
)

// Probe implements core.Gateway.
func (sdkGateway) Probe(cluster string, p core.ProbeCall, answered func(text string)) error {
	headers := [][2]string{{":method", "GET"}, {":path", p.Path}, {":authority", "warmgate"}, {p.Header, p.Text}}
	timeout := uint32(p.Timeout.Milliseconds())
	return callOut("another region", func(run func(func())) error {
		_, err := proxywasm.DispatchHttpCall(cluster, headers, nil, nil, timeout, func(int, int, int) {
			run(func() { answered(callHeader(p.Answer)) })
		})
		return err
	})
}

// callHeader returns a header of the answer to a call, "" if there is none.
func callHeader(name string) string {
	headers, err := proxywasm.GetHttpCallResponseHeaders()
	if err != nil {
		return ""
	}
	for _, h := range headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}
