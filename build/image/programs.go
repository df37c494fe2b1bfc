package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// platforms are those that a release has the program warmgate for; build/warmgate.mk builds them.
var platforms = []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}

// program is the program warmgate, for those who run gateways.
type program struct {
	platform string
	content  []byte
	info     *debug.BuildInfo
}

// programsOf reads the programs that `make programs` has put into build/out. Their licenses have to be known.
func programsOf(root string) (list []program, err error) {
	for _, platform := range platforms {
		p := program{platform: platform}
		name := filepath.Join(root, "build/out", "warmgate-"+platform)
		if p.content, err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("image: %w (run make programs)", err)
		}
		if p.info, err = buildinfo.Read(bytes.NewReader(p.content)); err != nil {
			return nil, fmt.Errorf("image: %s: %w", name, err)
		}
		p.info.GoVersion = strings.TrimPrefix(p.info.GoVersion, "go") // as that of modules
		for _, m := range linked(p.info) {
			if _, ok := licenses[m.Path]; !ok {
				return nil, fmt.Errorf("image: %s: no license is known of %s", name, m.Path)
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// archive returns the program with its license and what the licenses of others ask to be told.
func (p *program) archive(root, version string, created time.Time) (*file, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := addProgram(w, "warmgate", p.content, created); err != nil {
		return nil, err
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if err := addFile(w, name, text, created); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	packed, err := zipped(archive.Bytes())
	return &file{"warmgate-" + version + "-" + p.platform + ".tar.gz", packed}, err
}
