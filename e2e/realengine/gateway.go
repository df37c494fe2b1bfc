package main

import (
	"context"
	"strings"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
)

// endpointHeader names the endpoint the plugin chose, when debug_headers is on.
const endpointHeader = "x-warmgate-host"

// The plugin's configurations of the trials.
const (
	envoyPart     = `"envoy":{"admin_cluster":"warmgate-admin"},"debug_headers":true`
	byCounts      = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"requests",` + envoyPart + `}}`
	byPrefix      = `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{` + envoyPart + `}}`
	metricsPart   = `"envoy":{"admin_cluster":"warmgate-admin","metrics_cluster":"warmgate-metrics"},"debug_headers":true`
	byMetrics     = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{"unit":"requests","metrics":{"interval":"500ms"},` + metricsPart + `}}`
	byLoadReports = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{"unit":"requests","metrics":{"orca":true},` + envoyPart + `}}`
)

// startGateway runs Envoy with the plugin, which balances by its own counts, before the servers.
func startGateway(ctx context.Context, list servers) *harness.Gateway {
	return lab.Must(harness.Start(ctx, harness.Options{Config: byCounts, Endpoints: endpoints(list)}))
}

func endpoints(list servers) []harness.Endpoint {
	var es []harness.Endpoint
	for _, s := range list {
		es = append(es, harness.Endpoint{Addr: strings.TrimPrefix(s.url, "http://")})
	}
	return es
}
