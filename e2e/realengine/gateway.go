package main

import (
	"context"
	"strings"

	"github.com/warmgate/warmgate/e2e/harness"
)

// endpointHeader names the endpoint the plugin chose, when debug_headers is on.
const endpointHeader = "x-warmgate-host"

// startGateway runs Envoy with the plugin. The route replaces the servers by those given.
func startGateway(ctx context.Context, first servers) (to route, stop func(), err error) {
	g, err := harness.Start(ctx, harness.Options{Config: byCounts, Endpoints: endpoints(first)})
	if err != nil {
		return nil, nil, err
	}
	to = func(ctx context.Context, list servers, prompts uint64) (target, error) {
		return target{g.URL(), list, prompts}, g.PushEndpoints(ctx, endpoints(list))
	}
	return to, func() { _ = g.Stop() }, nil
}

func endpoints(list servers) []harness.Endpoint {
	var es []harness.Endpoint
	for _, s := range list {
		es = append(es, harness.Endpoint{Addr: strings.TrimPrefix(s.url, "http://")})
	}
	return es
}
