package clusters

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/models"
)

// Models are noted up to a bound, those that are not asked for any more make room, and a label is looked up once.
func TestAskedModelsAreBounded(t *testing.T) {
	cl, looked := &Cluster{Asked: Asked{}}, 0
	label := func() string { looked++; return "m" }
	cl.Asked.Note(0, &lb.Request{}, label)
	for range 2 {
		for i := range uint64(maxAsked + 10) {
			cl.Asked.Note(0, &lb.Request{ModelID: i + 1, ModelName: i + 1}, label)
		}
	}
	if len(cl.Asked) != maxAsked || looked != maxAsked {
		t.Errorf("%d models are noted, %d labels looked up, want %d", len(cl.Asked), looked, maxAsked)
	}
	cl.Asked.Note(time.Second, &lb.Request{ModelID: 1}, label)
	cl.Facts = models.NewFacts()
	if cl.Lacking(askedAge); len(cl.Asked) != 1 {
		t.Errorf("%d models are left, want the one that was asked for since", len(cl.Asked))
	}
}
