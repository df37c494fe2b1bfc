//go:build chaos

package main

import "sync"

// This file is in no artifact that is shipped. It lets a test lose a VM in a way that no recover can prevent: a request
// with the header x-warmgate-chaos ends the Go runtime.

func trapOnDemand() {
	switch string(header(requestHeaders, "x-warmgate-chaos")) {
	case "fatal":
		new(sync.Mutex).Unlock()
	case "memory":
		for {
			sink = append(sink, make([]byte, 1<<30))
		}
	case "stack":
		deeper(0)
	}
}

var sink [][]byte

//go:noinline
func deeper(n int) int { return deeper(n+1) + 1 }
