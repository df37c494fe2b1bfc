package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestTrials makes the trials with simulated servers in place of real ones.
func TestTrials(t *testing.T) {
	tuning := vllmsim.NoLatency()
	tuning.PrefillOverheadMS, tuning.PrefillTokenMS, tuning.DecodeStepMS = 1, .02, 5
	e := engine{name: "the simulator", lora: true, orca: true}
	if err := lab.Try(func() { tryPolicies(t.Context(), e, simulated(t, tuning, 2), 0, 3) }); err != nil {
		t.Fatal(err)
	}
}

// TestOccupy checks that foreign load is there when occupy returns, and gone afterwards.
func TestOccupy(t *testing.T) {
	tuning := vllmsim.NoLatency()
	tuning.DecodeStepMS = 10
	list := simulated(t, tuning, 1)
	tr := &trial{servers: list}
	if err := lab.Try(func() {
		stop := tr.occupy(t.Context(), list[0])
		c := list[0].scrape(t.Context())
		lab.FailIf(c.running != slots || c.waiting != slots, "occupied: %+v", c)
		stop()
		c = list[0].scrape(t.Context())
		lab.FailIf(c.running+c.waiting != 0, "left: %+v", c)
	}); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if lab.Try(func() { tr.occupy(gone, list[0]) }) == nil {
		t.Error("a server was occupied after the end")
	}
}

// TestPress checks that clients send again and again until they are stopped.
func TestPress(t *testing.T) {
	list := quick(t)
	tr := &trial{servers: list}
	stop := tr.press(t.Context(), list[0])
	err := lab.Try(func() {
		lab.Within(t.Context(), time.Minute, func() {
			n := list[0].scrape(t.Context()).generated
			lab.FailIf(n < 2*reportClients*reportAnswer, "all clients have not come twice: %v tokens", n)
		})
	})
	if err := errors.Join(err, stop()); err != nil {
		t.Fatal(err)
	}
}

func TestPrintFindings(t *testing.T) {
	tr := &trial{}
	tr.found(true, "one", "any", "%d", 1)
	if !printFindings(io.Discard, "", tr.findings) {
		t.Error("a finding that holds fails")
	}
	tr.found(false, "two", "none", "%d", 2)
	var table strings.Builder
	if printFindings(&table, "title", tr.findings) || strings.Count(table.String(), "NOT HELD") != 1 {
		t.Error(table.String())
	}
}

// TestWords checks that text has as many tokens as words, and that conversations only ever grow.
func TestWords(t *testing.T) {
	p := newProber(target{})
	if text := p.words(50); len(text) != 200 || len(strings.Fields(text)) != 50 {
		t.Errorf("50 words: %q", text)
	}
	var k talk
	k.add("user", "a")
	k.add("assistant", "b")
	if want := (loadgen.Message{Role: "assistant", Content: "b"}); len(k.messages) != 2 || k.messages[1] != want {
		t.Errorf("messages %v", k.messages)
	}
}

func TestEngineOf(t *testing.T) {
	for _, e := range engines {
		if got, err := engineOf(e.name); err != nil || got.files != e.files {
			t.Errorf("%s: %+v, %v", e.name, got, err)
		}
	}
	if _, err := engineOf("none"); err == nil {
		t.Error("an engine that there is not was found")
	}
}
