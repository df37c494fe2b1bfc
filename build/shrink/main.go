// Command shrink copies a Wasm module that Go has built, so that it takes less space and less time to compile.
//
//	shrink in.wasm out.wasm
//
// Functions jump by branches, where Go's compiler sets a number and has a table lead to the place of the number. It is
// an error if a function would not take the same steps as before, along all its ways.
//
// Then they compute the same with fewer instructions, and panic by calling a stub, which does what else each place does
// itself. It is an error if between two branches a function would not do the same as before.
//
// Functions that do not look as Go's compiler writes them stay as they are.
//
// The table by which Go's runtime finds the function of a program counter (runtime.findfunctab) is left out: a function
// fills it when the module starts. The linker provides one record for every 4 KiB of machine code. On Wasm a program
// counter is the number of the function times 64 Ki, so each function gets 16 records, all of them with its number: a
// tenth of Warmgate's module, as a sequence that two lines can compute. A module without such a table is copied as it
// is. What else is not as Go 1.24 to 1.26 link it is an error.
//
// The tables in front of it, of what the runtime knows of each function, are packed without their zeros, and unpacked
// by the same function, if they have room: before Go 1.26 none are there. The names in them are kept as stack traces
// print them, but for the module's path. It is an error if memory would not hold the same bytes as before, but for
// these names.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: shrink in.wasm out.wasm")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "shrink: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	if text, err = shrink(text); err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o666)
}
