package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// Go's linker writes these 16 bytes before and after the text that debug.ReadBuildInfo returns. The package
// debug/buildinfo, which reads it from other kinds of files, knows no Wasm.
var infoStart, infoEnd = mark("3077af0c9274080241e1c107e6d618e6"), mark("f932433186182072008242104116d8f2")

func mark(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

// goVersion is how a section "producers" names Go's release.
var goVersion = regexp.MustCompile(`go(\d+\.\d+(?:\.\d+|rc\d+|beta\d+)?)`)

// buildInfo returns what the Go toolchain has noted in a Wasm module: its own version and the modules that it linked.
func buildInfo(module []byte) (*debug.BuildInfo, error) {
	_, rest, started := bytes.Cut(module, infoStart)
	text, _, ended := bytes.Cut(rest, infoEnd)
	if !started || !ended {
		return nil, errors.New("not built by Go, or without modules")
	}
	info, err := debug.ParseBuildInfo(string(text))
	if err != nil {
		return nil, err
	}
	producers, err := customSection(module, "producers")
	if err != nil {
		return nil, err
	}
	version := goVersion.FindSubmatch(producers)
	if version == nil {
		return nil, fmt.Errorf("no version of Go in the section producers: %q", producers)
	}
	info.GoVersion = string(version[1])
	for _, m := range info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced: what is linked has no version", m.Path)
		}
	}
	return info, nil
}

// linked returns the modules that are part of the artifact beside its own, with Go's standard library as "stdlib".
func linked(info *debug.BuildInfo) []debug.Module {
	modules := []debug.Module{{Path: "stdlib", Version: info.GoVersion}}
	for _, m := range info.Deps {
		modules = append(modules, *m)
	}
	slices.SortFunc(modules, func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return modules
}

// customSection returns the content of a Wasm module's custom section.
func customSection(module []byte, name string) ([]byte, error) {
	const header, custom = 8, 0
	if len(module) < header || !bytes.HasPrefix(module, []byte("\x00asm")) {
		return nil, errors.New("no Wasm module")
	}
	for rest := module[header:]; len(rest) > 0; {
		kind := rest[0]
		body, after, ok := sized(rest[1:])
		if !ok {
			return nil, errors.New("a section is cut off")
		}
		if kind == custom {
			if have, content, ok := sized(body); ok && string(have) == name {
				return content, nil
			}
		}
		rest = after
	}
	return nil, fmt.Errorf("no section %s", name)
}

// sized cuts a run of bytes that begins with its length.
func sized(b []byte) (run, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
