// Package observability runs what deploy/observability has by a real Prometheus, and by promtool: recording rules and
// alerts, on made-up series and on those of a real gateway under traffic and faults.
package observability
