package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// How many requests a server runs at once, and how long each may be in tokens.
const (
	slots      = 4
	slotTokens = 8192
)

// model is the name under which all servers serve the small model.
const model = "tiny"

// held are the LoRA adapters that others use in the trial, each on the server of that number.
var held = []string{"first", "second"}

// engine is a kind of real model server.
type engine struct {
	name    string        // as reports write it
	files   string        // what its files in the folder engine begin with
	model   string        // what its model is called among the files made
	options []string      // of its server, after the model
	start   time.Duration // bounds the time that servers take to load their models
	block   int           // tokens of a block of its KV cache, for the simulation
	uv      bool          // uv installs its packages: many and large
	lora    bool          // it serves LoRA adapters
	orca    bool          // its answers carry the load, where a request accepts it
	names   counterNames
}

// engines are those that there are.
var engines = []engine{
	{
		name: "llama.cpp", files: "llamacpp", model: "model.gguf", start: time.Minute, block: 16, names: llamaNames,
		options: []string{strconv.Itoa(slots), strconv.Itoa(slots * slotTokens)},
	},
	{
		name: "vllm", files: "vllm", model: "tiny", start: 8 * time.Minute, block: 32,
		uv: true, lora: true, orca: true, names: vllmNames,
		options: []string{strconv.Itoa(slots), strconv.Itoa(slotTokens), strconv.Itoa(slots * slotTokens / 32)},
	},
}

// engineOf returns the engine of that name.
func engineOf(name string) (engine, error) {
	i := slices.IndexFunc(engines, func(e engine) bool { return e.name == name })
	if i < 0 {
		return engine{}, fmt.Errorf("no engine %q", name)
	}
	return engines[i], nil
}
