package placement

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/engines"
)

// A request whose end has panicked is told of it again. Another open one with its id stays known as open.
func TestGoneTwice(t *testing.T) {
	now, cl := time.Hour, &clusters.Cluster{Metrics: &engines.Cluster{}}
	pl := &Placement{}
	pl.Shared, pl.Cluster = &Shared{Lists: &engines.Lists{}}, cl
	pl.Wait.attempt.id = 1
	pl.Wait.attempt.begin(now, &cl.Retries)
	cl.Retries.Begin(now, 1)
	pl.Gone()
	pl.Gone()
	now += time.Hour // it is forgotten that both were open at a time
	if cl.Retries.Begin(now, 1); !cl.Retries.IsShared(now, 1) {
		t.Error("an open request was taken for one that has ended")
	}
}
