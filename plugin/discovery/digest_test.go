package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

func sampleClusters() map[string][]lb.Endpoint {
	return map[string][]lb.Endpoint{
		"llm": {
			{Addr: "10.0.0.1:8000", Weight: 1},
			{Addr: "[::1]:8000", Weight: 2.5, State: lb.Ejected, Priority: 2, Zone: lb.Zone{Region: "r", Name: "z"}},
		},
		"empty": {},
		"":      {{Addr: "", Weight: 0, State: lb.Draining}},
	}
}

func TestDigest(t *testing.T) {
	many, _ := ParseClusters(clustersText(t, 300))
	for name, clusters := range map[string]map[string][]lb.Endpoint{
		"none":   {},
		"sample": sampleClusters(),
		"long name, highest weight": {
			strings.Repeat("n", 128): {{Addr: strings.Repeat("a", 1<<14), Weight: math.MaxFloat32}},
		},
		"many": many,
	} {
		t.Run(name, func(t *testing.T) {
			b := AppendDigest([]byte("in front"), clusters)
			rest, ok := bytes.CutPrefix(b, []byte("in front"))
			if !ok {
				t.Fatal("what was in front is lost")
			}
			got, err := ParseDigest(rest)
			if err != nil || !reflect.DeepEqual(got, clusters) {
				t.Errorf("got %v, %v, want %v", got, err, clusters)
			}
			if again := AppendDigest(nil, got); !bytes.Equal(again, rest) {
				t.Errorf("the same clusters gave %q and %q", rest, again)
			}
		})
	}
}

func TestParseDigestBroken(t *testing.T) {
	good := AppendDigest(nil, sampleClusters())
	for end := range good {
		if got, err := ParseDigest(good[:end]); !errors.Is(err, ErrDigest) {
			t.Errorf("first %d bytes: got %v, %v", end, got, err)
		}
	}
	one := func(e lb.Endpoint) []byte { return AppendDigest(nil, map[string][]lb.Endpoint{"c": {e}}) }
	for name, b := range map[string][]byte{
		"other version":    append([]byte{1}, good[1:]...),
		"trailing byte":    append(bytes.Clone(good), 0),
		"too many":         {2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"endless number":   append([]byte{2}, bytes.Repeat([]byte{0xff}, 20)...),
		"many endpoints":   {2, 1, 1, 'c', 0xff, 0xff, 0x7f},
		"cluster twice":    {2, 2, 1, 'c', 0, 1, 'c', 0},
		"unknown state":    one(lb.Endpoint{Addr: "a", State: 99}),
		"weight NaN":       one(lb.Endpoint{Addr: "a", Weight: math.NaN()}),
		"weight negative":  one(lb.Endpoint{Addr: "a", Weight: -1}),
		"weight unbounded": one(lb.Endpoint{Addr: "a", Weight: math.Inf(1)}),
	} {
		if got, err := ParseDigest(b); !errors.Is(err, ErrDigest) || got != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestDigestIsCompact(t *testing.T) {
	clusters, _ := ParseClusters(clustersText(t, 1000))
	if size := len(AppendDigest(nil, clusters)); size > 30*1000 {
		t.Errorf("%d bytes for 1000 endpoints", size)
	}
}

func BenchmarkDigest(b *testing.B) {
	for _, n := range []int{100, 1000} {
		clusters, _ := ParseClusters(clustersText(b, n))
		digest := AppendDigest(nil, clusters)
		b.Run(fmt.Sprint("append", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				digest = AppendDigest(digest[:0], clusters)
			}
		})
		b.Run(fmt.Sprint("parse", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseDigest(digest); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzParseDigest checks that what is read can be written and read again, and that the memory it allocates is bounded
// by the length of the bytes.
func FuzzParseDigest(f *testing.F) {
	f.Add(AppendDigest(nil, nil))
	f.Add(AppendDigest(nil, sampleClusters()))
	f.Fuzz(func(t *testing.T, b []byte) {
		clusters, err := ParseDigest(b)
		if err != nil {
			return
		}
		endpoints := 0
		for _, list := range clusters {
			endpoints += len(list)
		}
		if len(clusters)*2+endpoints*13 > len(b) {
			t.Fatalf("%q: %d clusters, %d endpoints", b, len(clusters), endpoints)
		}
		again, err := ParseDigest(AppendDigest(nil, clusters))
		if err != nil || !reflect.DeepEqual(again, clusters) {
			t.Fatalf("%q: %v, then %v, %v", b, clusters, again, err)
		}
	})
}
