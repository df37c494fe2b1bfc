package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// TestTrials makes the trials with simulated servers in place of real ones.
func TestTrials(t *testing.T) {
	tuning := vllmsim.NoLatency()
	tuning.PrefillOverheadMS, tuning.PrefillTokenMS, tuning.DecodeStepMS = 1, .02, 5
	list, err := startSimulated(tuning, 2, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer list.stop()
	if err := tryPolicies(t.Context(), engine{name: "the simulator", lora: true, orca: true}, list, 0, 3); err != nil {
		t.Fatal(err)
	}
}

// TestOccupy checks that foreign load is there when occupy returns, and gone afterwards.
func TestOccupy(t *testing.T) {
	tuning := vllmsim.NoLatency()
	tuning.DecodeStepMS = 10
	list, err := startSimulated(tuning, 1, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer list.stop()
	tr := &trial{servers: list}
	stop, err := tr.occupy(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	if c, err := list[0].scrape(t.Context()); err != nil || c.running != slots || c.waiting != slots {
		t.Errorf("occupied: %+v, %v", c, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if c, err := list[0].scrape(t.Context()); err != nil || c.running+c.waiting != 0 {
		t.Errorf("left: %+v, %v", c, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.occupy(gone, list[0]); err == nil {
		t.Error("a server was occupied after the end")
	}
}

// TestPress checks that clients send again and again until they are stopped.
func TestPress(t *testing.T) {
	list := quick(t)
	tr := &trial{servers: list}
	stop := tr.press(t.Context(), list[0])
	err := await(t.Context(), "all clients have come twice", time.Minute, func() (bool, error) {
		c, err := list[0].scrape(t.Context())
		return c.generated >= 2*reportClients*reportAnswer, err
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

func TestAwait(t *testing.T) {
	n := 0
	if err := await(t.Context(), "", time.Minute, func() (bool, error) {
		n++
		return n == 3, nil
	}); err != nil || n != 3 {
		t.Errorf("%d polls, %v", n, err)
	}
	if err := await(t.Context(), "", time.Minute, func() (bool, error) {
		return false, io.EOF
	}); !errors.Is(err, io.EOF) {
		t.Errorf("a poll that fails gives %v", err)
	}
	err := await(t.Context(), "it rains", time.Millisecond, func() (bool, error) { return false, nil })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "it rains") {
		t.Errorf("what never happens gives %v", err)
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
