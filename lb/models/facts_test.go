package models

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func factCandidates(n int) (cs []lb.Candidate) {
	for i := range n {
		cs = append(cs, lb.Candidate{Addr: fmt.Sprint("e", i), Slope: 1, Weight: 1})
	}
	return cs
}

// wantLeft fails the test unless requests for the model go to those endpoints.
func wantLeft(t *testing.T, what string, f *Facts, now time.Duration, model uint64, length int64, want ...int) {
	t.Helper()
	left := f.Filter(now, &lb.Request{ModelID: model, Length: length}, lb.NewList(factCandidates(4))).Candidates
	got := []int{}
	for _, c := range left {
		got = append(got, int(c.Addr[1]-'0'))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v are left, want %v", what, got, want)
	}
}

// An endpoint without a model gets no requests for it, until it is asked again: after 5 s, then twice as long each
// time.
func TestAbsentModels(t *testing.T) {
	f, now := NewFacts(), time.Hour
	wantLeft(t, "nothing is known", f, now, 1, 0, 0, 1, 2, 3)
	f.Absent(now, 1, "e1")
	f.Absent(now, 1, "e1") // was under way
	f.Absent(now, 1, "e3")
	wantLeft(t, "two have refused", f, now, 1, 0, 0, 2)
	wantLeft(t, "another model", f, now, 2, 0, 0, 1, 2, 3)
	wantLeft(t, "no model", f, now, 0, 0, 0, 1, 2, 3)
	wait := firstPatience
	for range 8 {
		wantLeft(t, "just before", f, now+wait-1, 1, 0, 0, 2)
		if now += wait; wait < maxPatience/2 {
			wantLeft(t, "after "+wait.String(), f, now, 1, 0, 0, 1, 2, 3)
		}
		f.Absent(now, 1, "e1")
		f.Absent(now, 1, "e3")
		wait = min(2*wait, maxPatience)
	}
	f.Absent(now, 1, "e0")
	f.Absent(now, 1, "e2")
	wantLeft(t, "nobody has it", f, now, 1, 0, 0, 1, 2, 3)
	f.Served(now, 1, "e2", 0)
	wantLeft(t, "one has it now", f, now, 1, 0, 2)
	if !f.Active(now+factsActive-1) || f.Active(now+factsActive) {
		t.Error("requests are read for their models for another time")
	}
}

// Requests are read for their models only as long as that may tell endpoints apart: clients that ask for what nobody
// has cause it for a part of the time at most.
func TestMadeUpModelsAreSeldomLookedFor(t *testing.T) {
	f, begin, looked := NewFacts(), time.Hour, 0
	for now := begin; now < begin+10*time.Hour; now += time.Second {
		model := uint64(0)
		if f.Active(now) {
			looked++
			model = uint64(1 + now/time.Second)
		}
		f.Absent(now, model, fmt.Sprint("e", now/time.Second%4))
		f.Served(now, 99, "e1", 10)
		f.TooLong(now, 99, fmt.Sprint("e", now/time.Second%4), 1000) // for all
	}
	if share := float64(looked) / 36000; share > 0.07 || share < 0.04 {
		t.Errorf("requests were read for %.3f of the time", share)
	}
	now := begin + 11*time.Hour
	f.TooLong(now, 5, "e0", 1000)
	f.Served(now, 5, "e1", 999)
	if f.Active(now + lookFor) {
		t.Error("no endpoint has served a prompt that another one refused")
	}
	f.Served(now, 5, "e1", 1000)
	if !f.Active(now + factsActive - 1) {
		t.Error("one has, and requests are not read")
	}
}

// A refusal for the length of a prompt concerns those that are as long, and none once one of that length is served.
func TestTooLongPrompts(t *testing.T) {
	f, now := NewFacts(), time.Hour
	f.TooLong(now, 1, "e0", 3000)
	f.TooLong(now, 1, "e0", 2000)
	f.TooLong(now, 1, "e0", 2500)
	f.TooLong(now, 1, "e1", 9000)
	f.TooLong(now, 1, "e2", 0) // a body of unknown length
	wantLeft(t, "a short prompt", f, now, 1, 1999, 0, 1, 2, 3)
	wantLeft(t, "as long as a refused one", f, now, 1, 2000, 1, 2, 3)
	wantLeft(t, "longer", f, now, 1, 9000, 2, 3)
	f.Served(now, 1, "e0", 1999)
	wantLeft(t, "a shorter one was served", f, now, 1, 2000, 1, 2, 3)
	f.Served(now, 1, "e0", 2001)
	wantLeft(t, "a longer one was served", f, now, 1, 2000, 0, 1, 2, 3)
	wantLeft(t, "later", f, now+firstPatience, 1, 9000, 0, 1, 2, 3)
}

// An endpoint that has just served a model, or a prompt as long, is not believed to have none at once: what one client
// has sent may be refused in such words.
func TestDoubtfulRefusals(t *testing.T) {
	f, now := NewFacts(), time.Hour
	f.Served(now, 1, "e0", 900)
	for range surely - 1 {
		f.Absent(now, 1, "e0")
	}
	wantLeft(t, "just after it was served", f, now, 1, 0, 0, 1, 2, 3)
	f.Served(now, 1, "e0", 0)
	f.Absent(now, 1, "e0")
	wantLeft(t, "served in between", f, now, 1, 0, 0, 1, 2, 3)
	for range surely - 1 {
		f.Absent(now, 1, "e0")
	}
	wantLeft(t, "refusals in a row", f, now, 1, 0, 1, 2, 3)
	f.Served(now, 1, "e0", 0)
	f.Absent(now+servedLately, 1, "e0")
	wantLeft(t, "long after it was served", f, now+servedLately, 1, 0, 1, 2, 3)

	f.Served(now, 2, "e0", 900)
	for range 5 {
		f.TooLong(now+factsActive-1, 2, "e0", 900)
	}
	wantLeft(t, "one as long was served", f, now+factsActive-1, 2, 900, 0, 1, 2, 3)
	f.TooLong(now+factsActive-1, 2, "e0", 901)
	wantLeft(t, "a longer one", f, now+factsActive-1, 2, 901, 1, 2, 3)
	f.TooLong(now+factsActive, 2, "e0", 900)
	wantLeft(t, "it was long ago", f, now+factsActive, 2, 900, 1, 2, 3)
}

// What clients make up takes no room from models that there are.
func TestRoomForModels(t *testing.T) {
	f, now := NewFacts(), time.Hour
	for model := range uint64(10) {
		f.Absent(now, 1+model, "e0")
		f.Served(now, 1+model, "e1", 0)
	}
	for i := range 5000 {
		f.Absent(now+time.Second, uint64(1000+i), fmt.Sprint("e", i%4))
	}
	for i := range 5000 {
		f.Absent(now+time.Second, 1, fmt.Sprint("other", i))
	}
	for model := range uint64(10) {
		wantLeft(t, fmt.Sprint("model ", model), f, now+time.Second, 1+model, 0, 1, 2, 3)
	}
	if n, m := len(f.models), len(f.find(1).endpoints); n > maxFactModels || m > maxFactEndpoints {
		t.Errorf("%d models, %d endpoints of one", n, m)
	}
	f.Absent(now+2*factsActive, 1, "e0")
	for i := range maxFactModels {
		f.Absent(now+2*factsActive, uint64(100_000+i), "e0")
	}
	if n := len(f.models); n > maxFactModels {
		t.Errorf("%d models", n)
	}
}

// Workers learn from each other, and nothing that one has found out otherwise since.
func TestFactsAreShared(t *testing.T) {
	now := time.Hour
	a, b := NewFacts(), NewFacts()
	if _, changed := a.Export(now, nil); changed {
		t.Error("nothing was learned, and yet exported")
	}
	a.Absent(now, 1, "e0")
	a.TooLong(now, 2, "e1", 500)
	b.Absent(now, 1, "e2")
	shared, _ := a.Export(now, nil)
	if len(shared) != 2*factSize {
		t.Fatalf("%d bytes", len(shared))
	}
	a.ConfirmExport()
	if _, changed := a.Export(now, shared); changed {
		t.Error("exported twice")
	}
	shared, _ = b.Export(now, shared)
	a.Import(now, shared)
	b.Import(now, shared)
	for name, f := range map[string]*Facts{"a": a, "b": b} {
		wantLeft(t, name, f, now, 1, 0, 1, 3)
		wantLeft(t, name, f, now, 2, 500, 0, 2, 3)
		wantLeft(t, name, f, now, 2, 499, 0, 1, 2, 3)
	}
	if b.Active(now + lookFor) {
		t.Error("requests are read for models that nobody has served")
	}
	a.Served(now, 1, "e1", 5)
	shared, _ = a.Export(now, shared)
	if b.Import(now, shared); !b.Active(now + factsActive - 1) {
		t.Error("another worker has been served a model, and requests are not read for it")
	}
	b.Served(now+1, 1, "e0", 0)
	b.Import(now+1, shared)
	wantLeft(t, "served since", b, now+1, 1, 0, 0, 1, 3)
	b.Absent(now+firstPatience, 9, "e0")
	if shared, _ = b.Export(now+firstPatience, shared); len(shared) != factSize {
		t.Errorf("%d bytes after the others are over", len(shared))
	}
	b.Import(now, []byte("no facts"))
	NewFacts().Import(now, make([]byte, 10*factSize))
}

func FuzzImportFacts(f *testing.F) {
	f.Add(make([]byte, factSize))
	f.Fuzz(func(t *testing.T, shared []byte) {
		facts := NewFacts()
		facts.Import(time.Hour, shared)
		facts.Absent(time.Hour, 1, "e0")
		if out, changed := facts.Export(time.Hour, shared); !changed || len(out)%factSize != 0 ||
			len(out) > len(shared)+factSize {
			t.Errorf("%d bytes become %d", len(shared), len(out))
		}
		if len(facts.models) > maxFactModels {
			t.Errorf("%d models", len(facts.models))
		}
	})
}
