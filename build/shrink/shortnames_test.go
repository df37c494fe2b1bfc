package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"runtime.gopanic": "runtime.gopanic",
		"github.com/warmgate/warmgate/plugin/vm.(*VM).tick":                        "plugin/vm.(*VM).tick",
		"github.com/warmgate/warmgate/lb/a.(*B[go.shape.[]int]).Get":               "lb/a.(*B[...]).Get",
		"slices.Sort[go.shape.[]github.com/warmgate/warmgate/lb.A,go.shape.int].1": "slices.Sort[...].1",
		"other.example/x]y[z": "other.example/x]y[z",
	} {
		if got := shortName(name); got != want {
			t.Errorf("%s became %s, not %s", name, got, want)
		}
	}
}

// What is no beginning of a name, or would be written twice, is an error.
func TestShortenNamesRefuses(t *testing.T) {
	memory := memoryBefore(t, build(t))
	places, err := namePlaces(memory)
	if err != nil {
		t.Fatal(err)
	}
	table, _, err := functionTableIn(memory)
	if err != nil {
		t.Fatal(err)
	}
	var calls []uint64 // where records say where the calls are that were inlined
	for i := range table.field(fieldCount) {
		if at := table.callsOf(table.record(i)); at > 0 {
			calls = append(calls, at)
		}
	}
	for name, damage := range map[string]func(memory, table []byte){
		"the middle of a name": func(memory, _ []byte) { memory[places[0]]++ },
		"calls that overlap": func(_, table []byte) {
			copy(table[calls[0]:], table[calls[1]:][:4])
			table[calls[0]] += 2
		},
		"calls twice": func(_, table []byte) { copy(table[calls[0]:], table[calls[1]:][:4]) },
	} {
		bad := bytes.Clone(memory)
		table, _, err := functionTableIn(bad)
		if err != nil {
			t.Fatal(err)
		}
		damage(bad, table)
		if err := shortenNames(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The runtime prints the same stack trace, with functions that were inlined and such with type arguments.
func TestStackTrace(t *testing.T) {
	module := build(t)
	packed, err := shrink(module)
	if err != nil {
		t.Fatal(err)
	}
	want, got := trace(t, module), trace(t, packed)
	if got != want {
		t.Errorf("the stack trace was\n%s\nand became\n%s", want, got)
	}
	for _, part := range []string{"out of range", "main.inlined[...](", "main.called[...](", "main.crash(", "main.go"} {
		if !strings.Contains(got, part) {
			t.Errorf("the stack trace lacks %s:\n%s", part, got)
		}
	}
}

// trace returns what a module writes when it crashes.
func trace(t *testing.T, module []byte) string {
	t.Helper()
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	var out bytes.Buffer
	config := wazero.NewModuleConfig().WithStartFunctions().WithStderr(&out)
	m, err := runtime.InstantiateWithConfig(ctx, module, config)
	if err != nil {
		t.Fatal(err)
	}
	call(t, m, startFunction)
	if _, err := m.ExportedFunction("crash").Call(ctx, 1); err == nil {
		t.Fatal("no crash")
	}
	return out.String()
}
