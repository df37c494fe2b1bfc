package prompt

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/prompt/prompttest"
)

// inspected is the default number of bytes of a body that are read.
const inspected = 256 << 10

// read does everything that prefix_cache does with a body: it returns the blocks, as the caller retains them.
func read(c *Chainer, body []byte, complete bool) ([]Block, int, error) {
	_, parts, err := Read(body, complete)
	if err != nil {
		return nil, 0, err
	}
	blocks, length := c.Chain(body, &parts, "cluster", "route", "tenant")
	return slices.Clone(blocks), length, nil
}

// Any body, whole or cut off, is accepted or refused by its content, has a short chain, and takes a few kilobytes of
// memory. The gateway passes a copy of the inspected part to the plugin; no other copy is made.
func TestHostileBodies(t *testing.T) {
	for _, size := range []int{1 << 10, inspected, 1 << 20} {
		for _, b := range prompttest.Hostile(size) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := NewChainer(testSecret, 512)
			body, complete := b.JSON[:min(len(b.JSON), inspected)], len(b.JSON) <= inspected
			blocks, length, err := read(c, body, complete)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<10 {
				t.Errorf("%s, %d bytes: %d bytes allocated", b.Name, size, n)
			}
			if complete && (err == nil) != b.Good {
				t.Errorf("%s, %d bytes: %v", b.Name, size, err)
			}
			if len(blocks) > MaxBlocks || length < 0 || length > 4*len(body) {
				t.Errorf("%s, %d bytes: %d blocks of %d bytes", b.Name, size, len(blocks), length)
			}
		}
	}
}

// BenchmarkHostile measures reading hostile bodies of 256 KiB. The overhead benchmark has the same part, in which the
// plugin reads them in a gateway.
func BenchmarkHostile(b *testing.B) {
	c := NewChainer(testSecret, 512)
	for _, body := range prompttest.Hostile(inspected) {
		b.Run(body.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(c, body.JSON, true)
			}
		})
	}
}

// Of a body with too many values, the rest counts as text, and the chain is that of the parsed part.
func TestTooManyValues(t *testing.T) {
	c := NewChainer(testSecret, 512)
	const element = `-1234,` // tokens, which are not negative, cost less
	ids := func(n int, behind string) []byte {
		return []byte(`{"model":"m","max_tokens":7,"prompt":[` + strings.Repeat(element, n) + `1]` + behind)
	}
	var first []Block
	for name, body := range map[string][]byte{
		"all of it":     ids(2*maxValues, `}`),
		"longer":        ids(3*maxValues, `,"n":2}`),
		"not looked at": ids(2*maxValues, `,"model":"n","prompt":"`),
	} {
		info, parts, err := Read(body, true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if info.MaxTokens != 7 || info.TokenIDs > maxValues || info.TokenIDs < maxValues-10 {
			t.Errorf("%s: %+v", name, info)
		}
		if rest := len(body) - len(element)*maxValues; info.TextBytes < rest-100 || info.TextBytes > rest+100 {
			t.Errorf("%s: %d bytes count as text, want %d", name, info.TextBytes, rest)
		}
		blocks, _ := c.Chain(body, &parts)
		if first == nil {
			first = slices.Clone(blocks)
		}
		if len(blocks) < 30 || !slices.Equal(blocks, first) {
			t.Errorf("%s: %d blocks, %d of them in common", name, len(blocks), common(t, blocks, first))
		}
	}
	if info, _, err := Read(ids(maxValues-10, `}`), true); err != nil || info.TextBytes != 0 ||
		info.TokenIDs != maxValues-9 {
		t.Errorf("fewer: %+v, %v", info, err)
	}
	tokens := []byte(`{"n":2,"prompt":[` + strings.Repeat(`12345, `, 3*maxValues) + `7]}`)
	if info, _, err := Read(tokens, true); err != nil || info.TokenIDs != 3*maxValues+1 || info.TextBytes != 0 {
		t.Errorf("tokens: %+v, %v", info, err)
	}
}
