package mooncake

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadTrace(t *testing.T) {
	sample, err := os.ReadFile("testdata/sample.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(sample); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"a.jsonl": append(sample, "\n\n"...), "a.jsonl.gz": packed.Bytes()} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if trace, err := Read(path); err != nil || len(trace) != 4 || trace[2].HashIDs[4] != 4 {
			t.Errorf("%s: %v, %v", name, trace, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.gz"), []byte("no gzip"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(filepath.Join(dir, "b.gz")); err == nil {
		t.Error("what is not gzip was read")
	}
	if err := os.WriteFile(filepath.Join(dir, "c.jsonl"), []byte("\n{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(filepath.Join(dir, "c.jsonl")); err == nil ||
		!strings.Contains(err.Error(), "c.jsonl: trace, line 2: ") {
		t.Errorf("a trace that is no JSON: %v", err)
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
		"before time":     `{"timestamp":-1,"input_length":5,"output_length":1,"hash_ids":[1]}`,
		"endless":         `{"timestamp":0,"input_length":5,"output_length":99999999999,"hash_ids":[1]}`,
		"back in time": `{"timestamp":2,"input_length":5,"output_length":1,"hash_ids":[1]}
{"timestamp":1,"input_length":5,"output_length":1,"hash_ids":[1]}`,
	} {
		if got, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}
