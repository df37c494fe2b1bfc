package main

import (
	"context"
	"strings"

	"github.com/warmgate/warmgate/e2e/harness"
)

// pluginConfig is global least request with the headers that name the endpoint a request went to.
const pluginConfig = `{"lb_type":"endpoint","lb_policy":"global_least_request",` +
	`"lb_config":{"unit":"requests","envoy":{"admin_cluster":"warmgate-admin"},"debug_headers":true}}`

// endpointHeader names the endpoint the plugin chose, when debug_headers is on.
const endpointHeader = "x-warmgate-host"

// startGateway runs Envoy with the plugin. The route puts the servers it is given in the place of those before.
func startGateway(ctx context.Context, first servers) (to route, stop func(), err error) {
	g, err := harness.Start(ctx, harness.Options{Config: pluginConfig, Endpoints: endpoints(first)})
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
