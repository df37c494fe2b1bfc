package metrics

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkParse reads every sample page; BenchmarkScan finds their line ends, the least that any parser must do.
func BenchmarkParse(b *testing.B) {
	p, err := New(AnyEngine, "vllm:num_requests_running")
	if err != nil {
		b.Fatal(err)
	}
	each(b, func(b *testing.B, text []byte) {
		var l Snapshot
		b.ReportAllocs()
		for b.Loop() {
			p.Parse(text, &l)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	each(b, func(b *testing.B, text []byte) {
		for b.Loop() {
			for rest := text; len(rest) > 0; {
				rest = rest[bytes.IndexByte(rest, '\n')+1:]
			}
		}
	})
}

func each(b *testing.B, run func(*testing.B, []byte)) {
	names, err := filepath.Glob("testdata/*.prom")
	if err != nil || len(names) == 0 {
		b.Fatal("no samples", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			run(b, text)
		})
	}
}
