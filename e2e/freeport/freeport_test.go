package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestGet(t *testing.T) {
	first, err := outgoing()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		port, err := Get(1, 100)
		if err != nil {
			t.Fatal(err)
		}
		if port < lowest || port+100 >= first {
			t.Errorf("port %d, want %d to %d", port, lowest, first-101)
		}
		for _, o := range []int{0, 1, 100} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+o)))
			if err != nil {
				t.Errorf("port %d is not free: %v", port+o, err)
				continue
			}
			if allFree(port, []int{1, 100}) {
				t.Errorf("port %d counts as free while it is in use", port+o)
			}
			l.Close()
		}
	}
	if port, err := Get(first); err == nil {
		t.Errorf("port %d, with an offset that leaves no room", port)
	}
}
