//go:build !wasm

package main

// The calls for statistics do nothing where there is no gateway.

func defineMetric(uint32, string) uint32 { return 0 }

func addMetric(uint32, int64) {}

func recordMetric(uint32, uint64) {}
