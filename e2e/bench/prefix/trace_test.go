package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/mooncake"
)

// sampleTrace is two conversations and a stranger. Block 0 is common to all; the first conversation has a second turn.
const sampleTrace = `{"timestamp": 0, "input_length": 1500, "output_length": 320, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 1024, "output_length": 10, "hash_ids": [0, 7]}
{"timestamp": 6000, "input_length": 2050, "output_length": 64, "hash_ids": [0, 1, 2, 3, 4]}
{"timestamp": 9000, "input_length": 40, "output_length": 64, "hash_ids": [9]}
`

func sample(t *testing.T) []mooncake.Request {
	t.Helper()
	trace, err := mooncake.Parse(strings.NewReader(sampleTrace))
	if err != nil || len(trace) != 4 {
		t.Fatalf("%d requests, %v", len(trace), err)
	}
	return trace
}

func TestReadTrace(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(sampleTrace)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"a.jsonl": []byte(sampleTrace), "a.jsonl.gz": packed.Bytes()} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if trace, err := mooncake.Read(path); err != nil || len(trace) != 4 || trace[2].HashIDs[4] != 4 {
			t.Errorf("%s: %v, %v", name, trace, err)
		}
	}
	if _, err := mooncake.Read(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.gz"), []byte("no gzip"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := mooncake.Read(filepath.Join(dir, "b.gz")); err == nil {
		t.Error("what is not gzip was read")
	}
}

// TestAReplayBeginsWithItsFirstRequest holds that a part of a trace begins at once, whatever time its first request
// has.
func TestAReplayBeginsWithItsFirstRequest(t *testing.T) {
	all := replays(sample(t), 1, 2, 3*time.Second)
	for i, want := range []struct {
		name string
		dues []time.Duration
	}{
		{traceName, []time.Duration{0, 3 * time.Second}}, {middleName, []time.Duration{0, 3 * time.Second}},
	} {
		if all[i].name != want.name || all[i].kind != want.name || all[i].n != 2 {
			t.Fatalf("workload %d is %+v", i, all[i])
		}
		for k, s := range all[i].scripts(1) {
			if s.due != want.dues[k] {
				t.Errorf("%s: request %d is due at %v, want %v", want.name, k, s.due, want.dues[k])
			}
		}
	}
	first, middle := all[0].scripts(1)[0].turns[0], all[1].scripts(1)[0].turns[0]
	if len(first.add[0].Content) != 32*4 || len(middle.add[0].Content) != 64*4 {
		t.Error("the parts begin with other requests than 1 and 2 of 4")
	}
	busy := all[2].scripts(1)
	if all[2].name != slotsTrace || busy[0].turns[0].answer != 2 || busy[1].turns[0].answer != 16 {
		t.Errorf("answers of %d and %d tokens", busy[0].turns[0].answer, busy[1].turns[0].answer)
	}
	for _, w := range replays(nil, 0, 5, time.Second) {
		if w.write != nil || w.name == "" {
			t.Errorf("without a trace there is %+v", w)
		}
	}
}

func TestParseTraceRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":         "",
		"no JSON":         "{",
		"too few blocks":  `{"timestamp":0,"input_length":1025,"output_length":1,"hash_ids":[1,2]}`,
		"too many blocks": `{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1,2]}`,
		"no answer":       `{"timestamp":0,"input_length":512,"output_length":0,"hash_ids":[1]}`,
		"no prompt":       `{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}`,
		"back in time": `{"timestamp":2,"input_length":5,"output_length":1,"hash_ids":[1]}
{"timestamp":1,"input_length":5,"output_length":1,"hash_ids":[1]}`,
	} {
		if got, err := mooncake.Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}

// TestReplayKeepsWhatIsShared holds that prompts share text exactly as far as they share blocks, at the scale of the
// replay.
func TestReplayKeepsWhatIsShared(t *testing.T) {
	w := replay(traceName, sample(t), 0, 4, mooncake.Scale).over(3 * time.Second)
	scripts := w.scripts(1)
	prompts := make([]string, len(scripts))
	for i, s := range scripts {
		prompts[i] = s.turns[0].add[0].Content
		if want := time.Duration(i) * time.Second; s.due != want {
			t.Errorf("request %d is due at %v, want %v", i, s.due, want)
		}
	}
	const block = 64 // bytes: 16 tokens of 4
	for i, want := range []int{46 * 4, 32 * 4, 64 * 4, 1 * 4} {
		if len(prompts[i]) != want {
			t.Errorf("prompt %d has %d bytes, want %d", i, len(prompts[i]), want)
		}
	}
	for _, c := range []struct{ a, b, shared int }{
		{0, 2, 46 * 4}, // the second turn extends the first
		{0, 1, block},  // only the first block
		{1, 2, block},
		{0, 3, 0},
	} {
		a, b := prompts[c.a], prompts[c.b]
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		// Texts that differ may still begin with a few equal letters.
		if n < c.shared || n > c.shared+4 {
			t.Errorf("prompts %d and %d share %d bytes, want %d", c.a, c.b, n, c.shared)
		}
	}
	for i, want := range []int{10, 1, 2, 2} {
		if got := scripts[i].turns[0].answer; got != want {
			t.Errorf("answer %d has %d tokens, want %d", i, got, want)
		}
	}
	if s := scripts; s[0].session != s[2].session || s[0].session == s[1].session || s[3].session == s[1].session {
		t.Errorf("sessions %q %q %q %q", s[0].session, s[1].session, s[2].session, s[3].session)
	}
}
