package gauges

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// The room of an endpoint is what its tighter cap leaves. One that is below its cap in tokens takes one more.
func TestRoomBelowCaps(t *testing.T) {
	for _, c := range []struct {
		requests, tokens int64 // caps
		load             lb.Load
		want             int64
	}{
		{8, 0, lb.Load{Requests: 3, Tokens: 1e6}, 5},
		{8, 0, lb.Load{Requests: 9}, 0},
		{0, 1000, lb.Load{Requests: 3, Tokens: 300}, 7},
		{0, 1000, lb.Load{Requests: 3, Tokens: 301}, 7},
		{0, 1000, lb.Load{Requests: 1, Tokens: 5000}, 0},
		{8, 1000, lb.Load{Requests: 3, Tokens: 300}, 5},
		{8, 1000, lb.Load{Requests: 3, Tokens: 900}, 1},
	} {
		if got := roomFor(&lb.Candidate{Cap: c.requests, TokenCap: c.tokens}, c.load, 100); got != c.want {
			t.Errorf("%+v: %d, want %d", c, got, c.want)
		}
	}
}
