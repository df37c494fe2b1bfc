//go:build !envoy && !wasm

package main

import "unsafe"

func proxyGetUpstreamHosts(unsafe.Pointer, unsafe.Pointer) status { return statusNone }
func proxySetOverrideHost(string) status                          { return statusNone }
func proxyRedisInit(string, string, string, uint32) status        { return statusNone }
func proxyRedisCall(string, string, unsafe.Pointer) status        { return statusNone }
