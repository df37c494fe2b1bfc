// Package freeport finds ports for servers that must come back on the same port after they were stopped.
//
// A port that the kernel hands out for :0 is not suitable: it is in the range of outgoing connections. While the server
// is down, any client on the machine may get its port, and a client that retries on the loopback interface may even
// connect to itself. So these ports are below that range.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const (
	lowest   = 10000                                    // below are ports of well-known services
	rangeOf  = "/proc/sys/net/ipv4/ip_local_port_range" // of outgoing connections: first and last
	attempts = 200
)

// Get returns a TCP port of 127.0.0.1 that has no listener at the moment, and likewise for the port plus each offset,
// in ports. Another process may take it before the caller does.
func Get(offsets ...int) (int, error) {
	first, err := outgoing()
	if err != nil {
		return 0, err
	}
	span := 0
	for _, o := range offsets {
		span = max(span, o)
	}
	if first-span <= lowest {
		return 0, fmt.Errorf("freeport: outgoing connections use ports from %d: no room below", first)
	}
	for range attempts {
		port := lowest + rand.IntN(first-span-lowest)
		if allFree(port, offsets) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("freeport: %d ports in a row are taken", attempts)
}

// outgoing returns the first port that the kernel gives to outgoing connections.
func outgoing() (int, error) {
	text, err := os.ReadFile(rangeOf)
	if err != nil {
		return 0, fmt.Errorf("freeport: %w", err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0, fmt.Errorf("freeport: %s: %w", rangeOf, err)
	}
	return first, nil
}

func allFree(port int, offsets []int) bool {
	for _, o := range append([]int{0}, offsets...) {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+o)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
