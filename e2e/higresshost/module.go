package higresshost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ABI is the version by which a host runs a module.
type ABI string

// The versions that Higress knows. They are not ordered by their numbers: 0.2.100 is Higress's own.
const (
	ABI020   ABI = "0.2.0"
	ABI021   ABI = "0.2.1"
	ABI02100 ABI = "0.2.100"
)

var abiExports = map[string]ABI{
	"proxy_abi_version_0_2_0":   ABI020,
	"proxy_abi_version_0_2_1":   ABI021,
	"proxy_abi_version_0_2_100": ABI02100,
}

// ModuleABI returns the version by which a host of that profile runs the module: the first version export that it
// knows, in the order of the module's export section. Stock Envoy does not know 0.2.100.
func ModuleABI(wasm []byte, profile Profile) (ABI, error) {
	exports, err := ModuleExports(wasm)
	if err != nil {
		return "", err
	}
	for _, name := range exports {
		abi, ok := abiExports[name]
		if ok && (abi != ABI02100 || profile.higress()) {
			return abi, nil
		}
	}
	return "", fmt.Errorf("higresshost: no Proxy-Wasm ABI version known to %s is exported", profile)
}

const (
	wasmHeader    = "\x00asm\x01\x00\x00\x00"
	exportSection = 7
)

var errModule = errors.New("higresshost: not a WebAssembly module")

// ModuleExports returns the names of all exports in the order of the export section.
func ModuleExports(wasm []byte) ([]string, error) {
	if !strings.HasPrefix(string(wasm[:min(len(wasm), 8)]), wasmHeader) {
		return nil, errModule
	}
	r := reader{b: wasm[8:]}
	for len(r.b) > 0 {
		id := r.byte()
		body := r.take(r.uint())
		if r.err != nil {
			return nil, r.err
		}
		if id == exportSection {
			return exportNames(body)
		}
	}
	return nil, nil
}

func exportNames(section []byte) ([]string, error) {
	r := reader{b: section}
	var names []string
	for range r.uint() {
		name := string(r.take(r.uint()))
		r.byte() // kind
		r.uint() // index
		if r.err != nil {
			return nil, r.err
		}
		names = append(names, name)
	}
	return names, nil
}

// reader reads the primitives of the binary format; after an error every read gives zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.b)) {
		r.err = errModule
	}
	if r.err != nil {
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.err = errModule
	}
	r.take(uint64(max(n, 0)))
	if r.err != nil {
		return 0
	}
	return v
}
