package ranks

import (
	"context"
	"testing"
)

// TestSmall plays a small load: the same seed gives the same figures, and where the plugin chooses ranks none of them
// has much more to do than the others, nor are fewer tokens computed than where a server takes its ranks in turn.
func TestSmall(t *testing.T) {
	s := settings{servers: 2, ranks: 4}
	c := cells()[0]
	c.load.Users, c.load.Requests = 160, 1500
	var results []*result
	for i := range contenders[:3] {
		r, err := s.play(context.Background(), &c, &contenders[i], 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.play(context.Background(), &c, &contenders[i], 1)
		if err != nil || again.uneven != r.uneven || again.TokensPer != r.TokensPer {
			t.Errorf("%s: %+v, again %+v, %v", contenders[i].name, r, again, err)
		}
		results = append(results, &r)
	}
	own := results[0]
	if own.uneven > 1.3 || own.uneven < 1 {
		t.Errorf("the busiest rank computes %.2f times the mean", own.uneven)
	}
	if inTurn := results[2]; own.TokensPer < inTurn.TokensPer || own.Cached <= inTurn.Cached {
		t.Errorf("%.0f tokens/s and %.2f cached; in turn %.0f and %.2f", own.TokensPer, own.Cached, inTurn.TokensPer,
			inTurn.Cached)
	}
}
