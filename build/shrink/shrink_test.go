package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"pgregory.net/rapid"
)

// A library whose stack grows and whose panic is caught: the runtime finds functions for both, and resumes them. So it
// does where goroutines wait for each other.
const library = `package main

import "runtime"

func main() {}

//go:wasmexport deep
func deep(n int32) int32 {
	var pad [512]byte
	if n == 0 {
		return int32(pad[n])
	}
	return deep(n-1) + 1
}

//go:wasmexport caught
func caught(divisor int32) (result int32) {
	defer func() {
		if recover() != nil {
			result = -1
		}
	}()
	return 100 / divisor
}

//go:wasmexport primes
func primes(limit int32) (sum int32) {
next:
	for n := int32(2); n < limit; n++ {
		for d := int32(2); d*d <= n; d++ {
			if n%d == 0 {
				continue next
			}
		}
		sum += n
	}
	return sum
}

func odd(in <-chan int32, out chan<- int32) {
	defer close(out)
	for v := range in {
		switch {
		case v < 0:
			runtime.Goexit()
		case v%2 == 1:
			out <- v
		}
	}
}

//go:wasmexport piped
func piped(n int32) (sum int32) {
	in, out := make(chan int32), make(chan int32)
	go odd(in, out)
	sent, gone := int32(0), make(map[int32]bool)
	for {
		feed := in
		if sent > n {
			feed = nil
		}
		v := sent
		if sent == n {
			v = -1
		}
		select {
		case feed <- v:
			sent++
		case v, ok := <-out:
			if !ok {
				return sum + int32(len(gone))
			}
			gone[v] = true
			sum += v
		}
		runtime.Gosched()
	}
}

//go:wasmexport deferred
func deferred(n int32) (trail int32) {
	for i := int32(1); i <= n; i++ {
		defer func() {
			if r := recover(); r != nil {
				trail = trail*10 + i
				panic(r)
			}
		}()
	}
	defer func() {
		recover()
		trail = trail*10 + 9
		if n > 0 {
			defer func() { recover() }()
			fail(n)
		}
	}()
	fail(n)
	return 7
}

//go:wasmexport crash
func crash(n int32) int32 {
	return inlined([]int32{1, 2}, n) + called([]int32{3, 4}, n)
}

func inlined[T any](list []T, n int32) T { return list[n] }

//go:noinline
func called[T any](list []T, n int32) T { return inlined(list[1:], n) }

func fail(n int32) {
	defer func() { runtime.GC() }()
	if n < 0 {
		for {
		}
	}
	var none []int32
	none[n]++
}
`

// build returns the library as Go's linker writes it.
func build(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "out.wasm")
	if err := os.WriteFile(source, []byte(library), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, source)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// instance returns the module in memory, before it has started.
func instance(t *testing.T, module []byte) api.Module {
	t.Helper()
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	t.Cleanup(func() { runtime.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	m, err := runtime.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func call(t *testing.T, m api.Module, name string, args ...uint64) int32 {
	t.Helper()
	results, err := m.ExportedFunction(name).Call(context.Background(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		return 0
	}
	return int32(results[0])
}

func memoryOf(t *testing.T, m api.Module, n int) []byte {
	t.Helper()
	b, ok := m.Memory().Read(0, uint32(n))
	if !ok {
		t.Fatal("the memory is smaller than what its segments fill")
	}
	return bytes.Clone(b)
}

// memoryBefore is the memory that the module's segments make.
func memoryBefore(t *testing.T, module []byte) []byte {
	t.Helper()
	all, err := sections(module)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := segments(find(all, sectionData).body)
	if err != nil {
		t.Fatal(err)
	}
	return image(parts)
}

func TestShrink(t *testing.T) {
	module := build(t)
	t.Run("as it is linked", func(t *testing.T) { testShrink(t, module) })
	t.Run("as Go 1.25 links it", func(t *testing.T) { testShrink(t, older(t, module)) })
}

// The packed module has the table once it has started, and the rest of its memory from the beginning; and it runs.
func testShrink(t *testing.T, module []byte) {
	t.Helper()
	packed, err := shrink(module)
	if err != nil {
		t.Fatal(err)
	}
	want := memoryBefore(t, module)
	if err := shortenNames(want); err != nil {
		t.Fatal(err)
	}
	base, records := findTable(want)
	if records == 0 {
		t.Fatal("the linker has written no such table: is this command still needed?")
	}
	if saved := len(module) - len(packed); saved < records*8 {
		t.Errorf("%d bytes saved for %d records", saved, records)
	}
	first, err := packedFrom(want, base)
	if err != nil {
		t.Fatal(err)
	}
	m := instance(t, packed)
	end := base + records*recordSize
	got := memoryOf(t, m, len(want))
	if !bytes.Equal(got[:first], want[:first]) || !bytes.Equal(got[end:], want[end:]) {
		t.Error("what is in none of the tables differs")
	}
	call(t, m, startFunction)
	if got := memoryOf(t, m, len(want)); !bytes.Equal(got[:end], want[:end]) {
		t.Error("the tables differ once the module has started")
	}
	if got := call(t, m, "deep", 2000); got != 2000 {
		t.Errorf("deep returned %d", got)
	}
	if got := call(t, m, "caught", 0); got != -1 {
		t.Errorf("caught returned %d", got)
	}
	linked := instance(t, module)
	call(t, linked, startFunction)
	for _, name := range []string{"deep", "caught", "primes", "piped", "deferred"} {
		for _, n := range []uint64{0, 1, 2, 7, 100, 1000} {
			if want, got := call(t, linked, name, n), call(t, m, name, n); got != want {
				t.Errorf("%s(%d) returned %d, not %d", name, n, got, want)
			}
		}
	}
	if again, err := shrink(packed); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("a module without a table was changed (%v)", err)
	}
}

// What is cut off or is no module gets an error.
func TestShrinkRefuses(t *testing.T) {
	module := build(t)
	for name, bad := range map[string][]byte{
		"empty": nil, "text": []byte("package main"), "no section": header, "cut off": module[:len(module)-9],
	} {
		if _, err := shrink(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	renamed := bytes.Replace(module, []byte(startFunction), []byte("_initialise"), 1)
	if _, err := shrink(renamed); err == nil || !strings.Contains(err.Error(), startFunction) {
		t.Errorf("without an export %s: %v", startFunction, err)
	}
}

// A sequence is taken for the table only as far as it goes on, and only when it is long.
func TestFindTable(t *testing.T) {
	table := func(records int) []byte {
		var b []byte
		for k := range records {
			b = append(binary.LittleEndian.AppendUint32(b, record(k)), make([]byte, recordSize-4)...)
		}
		return b
	}
	const many = leastFuncs*perFunc + 3
	before := bytes.Repeat([]byte{7}, 100)
	for _, test := range []struct {
		name   string
		memory []byte
		base   int
		want   int
	}{
		{"alone", table(many), 0, many},
		{"in the middle", append(append(bytes.Clone(before), table(many)...), before...), len(before), many},
		{"too short", table(leastFuncs*perFunc - 1), 0, 0},
		{"no beginning", table(many)[recordSize:], 0, 0},
		{"none", before, 0, 0},
	} {
		if base, got := findTable(test.memory); got != test.want || got > 0 && base != test.base {
			t.Errorf("%s: %d records at %d, not %d at %d", test.name, got, base, test.want, test.base)
		}
	}
}

// Any memory comes back from its segments, through their packed form.
func TestSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var memory []byte
		for range rapid.IntRange(0, 8).Draw(t, "parts") {
			memory = append(memory, make([]byte, rapid.IntRange(0, 300).Draw(t, "gap"))...)
			memory = append(memory, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")...)
		}
		memory = append(memory, 1)
		all, err := segments(appendSegments(nil, split(memory)))
		if err != nil {
			t.Fatal(err)
		}
		if got := image(all); !bytes.Equal(got, memory) {
			t.Errorf("%x became %x", memory, got)
		}
	})
}

// Any data comes back, in no more than 9 bytes for 8.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) byte {
			return rapid.Byte().Draw(t, "value") * byte(rapid.IntRange(0, 1).Draw(t, "set"))
		}), 0, 60).Draw(t, "data")
		packed := pack(data)
		got := make([]byte, len(data))
		if n := unpack(got, packed); n != len(packed) || !bytes.Equal(got, data) {
			t.Errorf("% x became % x, of %d bytes in % x", data, got, n, packed)
		}
		if zeros := bytes.Count(data, []byte{0}); len(packed) != len(data)-zeros+(len(data)+7)/8 {
			t.Errorf("% x became % x", data, packed)
		}
	})
}
