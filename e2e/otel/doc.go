// Package otel runs an OpenTelemetry collector with the shipped configuration: what real gateways send it as spans, and
// what it makes of their statistics. It is a module of its own, so that the collector is no dependency of Warmgate.
package otel
