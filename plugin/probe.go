package main

import (
	"strings"

	"github.com/warmgate/warmgate/plugin/host"
)

// Probe implements host.Gateway.
func (gateway) Probe(cluster string, p host.ProbeCall, answered func(text string)) error {
	call := httpCall{cluster: cluster, within: p.Timeout, headers: append([][2]string{
		{":method", "GET"}, {":path", p.Path}, {":authority", "warmgate"},
	}, p.Headers...)}
	return call.send("another region", func(int, int) { answered(strings.Clone(callHeader(p.Answer))) })
}
