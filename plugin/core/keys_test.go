package core

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

func TestPrepareKeepsWhatIsThere(t *testing.T) {
	kv := &fakeKV{cells: map[string]fakeCell{}}
	if err := prepare(kv); err != nil {
		t.Fatal(err)
	}
	store := memstore.New(kv, 1, leaseTTL)
	plan := &lb.Plan{Scope: "llm", Candidates: []lb.Candidate{{Addr: "a", Slope: 1, Weight: 1}}}
	store.Reserve(time.Hour, 1, plan, func(_ lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	leader := newAdminPoller(kv, 7)
	if !leader.due(time.Hour, pollEvery) {
		t.Fatal("no leader")
	}
	if err := prepare(kv); err != nil {
		t.Fatal(err)
	}
	loads, err := store.Loads("llm", []string{"a"}, nil)
	if err != nil || loads[0].Requests != 1 {
		t.Errorf("a second configuration leaves %v in flight (%v), want 1", loads, err)
	}
	if newAdminPoller(kv, 8).due(time.Hour, pollEvery) {
		t.Error("a second configuration unseats the leader")
	}
}

func TestPrepareReportsErrors(t *testing.T) {
	trouble := errors.New("host trouble")
	if err := prepare(&fakeKV{cells: map[string]fakeCell{}, broken: trouble}); !errors.Is(err, trouble) {
		t.Errorf("got %v when nothing can be read", err)
	}
	full := &fakeKV{cells: map[string]fakeCell{}, onSet: func(string, []byte, uint32) error { return trouble }}
	if err := prepare(full); !errors.Is(err, trouble) {
		t.Errorf("got %v when nothing can be written", err)
	}
}
