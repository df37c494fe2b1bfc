//go:build !wasm

package main

import "time"

var started = time.Now()

// monotonic stands in for the host's clock where there is no host.
func monotonic() time.Duration { return time.Since(started) }
