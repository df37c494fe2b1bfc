package loadgen

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A crowd goes to all addresses in turn, stays until it leaves, and is not kept by a server that is not there.
func TestCrowd(t *testing.T) {
	const n = 10
	var counts [2]atomic.Int64
	var addrs []string
	came, left := make(chan struct{}, n), make(chan struct{}, n)
	for i := range counts {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			counts[i].Add(1)
			came <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		}))
		defer s.Close()
		addrs = append(addrs, s.Listener.Addr().String())
	}
	c, err := Arrive(addrs, n, PostRequest("crowd", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		<-came
	}
	select {
	case <-left:
		t.Error("one left before Leave")
	default:
	}
	c.Leave()
	for range n {
		<-left
	}
	if counts[0].Load() != n/2 || counts[1].Load() != n/2 {
		t.Errorf("%d and %d came, want %d each", counts[0].Load(), counts[1].Load(), n/2)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Arrive([]string{addrs[0], l.Addr().String()}, 2, nil); err == nil {
		t.Error("arrived without a listener")
	}
}
