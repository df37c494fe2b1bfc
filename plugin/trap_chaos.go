//go:build chaos

package main

import (
	"sync"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// This file is in no artifact that is shipped. It lets a test lose a VM in a way that no recover can prevent: a request
// with the header x-warmgate-chaos ends the Go runtime.

func trapOnDemand() {
	how, _ := proxywasm.GetHttpRequestHeader("x-warmgate-chaos")
	switch how {
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
