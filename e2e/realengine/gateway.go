package main

import (
	"context"
	"os"
	"strings"

	"github.com/warmgate/warmgate/e2e/harness"
)

// pluginConfig is global least request with the headers that name the endpoint a request went to.
const pluginConfig = `{"lb_type":"endpoint","lb_policy":"global_least_request",` +
	`"lb_config":{"unit":"requests","envoy":{"admin_cluster":"warmgate-admin"},"debug_headers":true}}`

// endpointHeader names the endpoint the plugin chose, when debug_headers is on.
const endpointHeader = "x-warmgate-host"

// compareThroughGateway measures both kinds behind Envoy and the plugin, two servers at a time.
func compareThroughGateway(ctx context.Context, real, sim servers) (alike bool, err error) {
	g, err := harness.Start(ctx, harness.Options{Config: pluginConfig, Endpoints: endpoints(real)})
	if err != nil {
		return false, err
	}
	defer func() { _ = g.Stop() }()
	var reports [2]report
	for i, s := range []servers{real, sim} {
		if err := g.PushEndpoints(ctx, endpoints(s)); err != nil {
			return false, err
		}
		if reports[i], err = measure(ctx, target{url: g.URL(), servers: s}); err != nil {
			return false, err
		}
	}
	return printVerdict(os.Stdout, "two servers, through Envoy and the plugin", reports[0], reports[1]), nil
}

func endpoints(list servers) []harness.Endpoint {
	var es []harness.Endpoint
	for _, s := range list {
		es = append(es, harness.Endpoint{Addr: strings.TrimPrefix(s.url, "http://")})
	}
	return es
}
