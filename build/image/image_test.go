package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/warmgate/warmgate/e2e/harness"
)

// packed holds what packedT has made once.
var packed []*artifact

// packedT returns the artifacts of this tree, as they are built now, with their images.
func packedT(t *testing.T) []*artifact {
	t.Helper()
	if packed != nil {
		return packed
	}
	for _, host := range []harness.Host{harness.HostEnvoy, harness.HostHigress} {
		harness.ModuleT(t, host)
	}
	artifacts, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range artifacts {
		if err := a.pack(); err != nil {
			t.Fatal(err)
		}
	}
	packed = artifacts
	return packed
}

// TestForms compares each image with what it has to be, layer by layer.
func TestForms(t *testing.T) {
	for _, a := range packedT(t) {
		type layer struct{ mediaType, title string }
		for i, want := range []struct {
			tag, config, kind string
			layers            []layer
		}{
			{
				a.version, "application/vnd.oci.empty.v1+json", "application/vnd.unknown.artifact.v1",
				[]layer{
					{"application/vnd.module.wasm.config.v1+json", "config.json"},
					{"application/vnd.module.wasm.content.layer.v1+wasm", "plugin.wasm"},
				},
			},
			{
				a.version + "-compat", "application/vnd.oci.image.config.v1+json", "",
				[]layer{{"application/vnd.oci.image.layer.v1.tar+gzip", ""}},
			},
		} {
			image := &a.images[i]
			raw, err := image.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			var have struct {
				MediaType, ArtifactType string
				Config                  struct{ MediaType string }
				Layers                  []struct {
					MediaType   string
					Annotations map[string]string
				}
			}
			if err := json.Unmarshal(raw, &have); err != nil {
				t.Fatal(err)
			}
			var layers []layer
			for _, l := range have.Layers {
				layers = append(layers, layer{l.MediaType, l.Annotations["org.opencontainers.image.title"]})
			}
			if image.tag != want.tag || have.MediaType != "application/vnd.oci.image.manifest.v1+json" ||
				have.Config.MediaType != want.config || have.ArtifactType != want.kind ||
				!slices.Equal(layers, want.layers) {
				t.Errorf("%s:%s: %s", a.name, image.tag, raw)
			}
		}
		// Layers, sizes and digests agree with the config; of the other form there is nothing in the config to compare.
		if err := validate.Image(a.images[1].Image); err != nil {
			t.Errorf("%s:%s: %v", a.name, a.images[1].tag, err)
		}
	}
}

// TestSizes compares the size of each image with its budget and with what docs/artifacts.md says of both artifacts, to
// 5 %. The first form has the module as it is, whose budget is that of build/wasm.sh.
func TestSizes(t *testing.T) {
	artifacts := packedT(t)
	document := string(harness.ReadT(t, "docs/artifacts.md"))
	for i, c := range []struct {
		limit  string // as documented
		budget int64  // in bytes, with what a manifest takes
	}{{"6 MiB", 6<<20 + 2000}, {"2.5 MB", 2_500_000}} {
		pattern := "(?m)^\\| `warmgate-envoy:" + regexp.QuoteMeta(artifacts[0].images[i].tag) +
			"`, .* \\| ([0-9.]+) MB and ([0-9.]+) MB; at most " + regexp.QuoteMeta(c.limit) + " \\|$"
		row := regexp.MustCompile(pattern).FindStringSubmatch(document)
		if row == nil {
			t.Fatalf("docs/artifacts.md has no row like %s", pattern)
		}
		for j, a := range artifacts {
			size := a.images[i].size
			t.Logf("%s:%s: %d bytes of a module of %d", a.name, a.images[i].tag, size, len(a.module))
			if size > c.budget {
				t.Errorf("%s:%s has %d bytes, more than %d", a.name, a.images[i].tag, size, c.budget)
			}
			said, err := strconv.ParseFloat(row[j+1], 64)
			if err != nil || math.Abs(said*1e6/float64(size)-1) > 0.05 {
				t.Errorf("%s:%s has %d bytes, docs/artifacts.md says %s MB", a.name, a.images[i].tag, size, row[j+1])
			}
		}
	}
}

// TestBudget has an image refused that is larger than its budget: its module is followed by a section of what cannot
// be compressed.
func TestBudget(t *testing.T) {
	large := *packedT(t)[0]
	large.images, large.bills = nil, nil
	noise := make([]byte, maxCompressed)
	rand.NewChaCha8([32]byte{}).Read(noise)
	section := append([]byte{1, 'x'}, noise...)
	large.module = append(binary.AppendUvarint(append(slices.Clone(large.module), 0), uint64(len(section))), section...)
	if err := large.pack(); err == nil || !strings.Contains(err.Error(), "more than the budget of 2500000") {
		t.Errorf("error %v", err)
	}
}

// releaseT writes a release in a copy of what it is made of, and returns its files.
func releaseT(t *testing.T) map[string][]byte {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{
		"LICENSE", "build/spec.yaml", "build/out/warmgate-envoy.wasm", "build/out/warmgate-higress.wasm",
	} {
		file := filepath.Join(root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, harness.ReadT(t, name), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(root, "deploy/helm"), os.DirFS(harness.PathT(t, "deploy/helm"))); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), root, []string{"release"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(root, "build/out/release/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestRelease writes a release twice, with nothing in common but the modules, compares every byte, and then what the
// files say of each other.
func TestRelease(t *testing.T) {
	artifacts := packedT(t)
	files, again := releaseT(t), releaseT(t)
	for name, content := range files {
		if !bytes.Equal(content, again[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(files) != 11 || len(again) != len(files) {
		t.Errorf("%d and %d files, want 11", len(files), len(again))
	}
	lines := 0
	for in := bufio.NewScanner(bytes.NewReader(files["SHA256SUMS"])); in.Scan(); lines++ {
		sum, name, _ := strings.Cut(in.Text(), "  ")
		content, ok := files[name]
		if want := fmt.Sprintf("%x", sha256.Sum256(content)); !ok || sum != want {
			t.Errorf("SHA256SUMS: %q, want %s", in.Text(), want)
		}
	}
	if lines != len(files)-1 {
		t.Errorf("SHA256SUMS has %d lines, want one for each of %d files", lines, len(files)-1)
	}
	for _, a := range artifacts {
		dir := t.TempDir()
		untar(t, files[a.name+"-"+a.version+".oci.tar"], dir)
		index, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var listed strings.Builder
		tagged, attached := manifest.Manifests[:len(a.images)], manifest.Manifests[len(a.images):]
		for i, d := range attached {
			if d.Digest != a.bills[i].digest || d.Annotations != nil {
				t.Errorf("%s: attached is %+v", a.name, d)
			}
		}
		if len(attached) != len(a.images) {
			t.Errorf("%s: %d SBOMs", a.name, len(attached))
		}
		for i, d := range tagged {
			tag := d.Annotations["org.opencontainers.image.ref.name"]
			fmt.Fprintf(&listed, "%s:%s %s %d bytes\n", a.name, tag, d.Digest, a.images[i].size)
		}
		if want := listed.String(); strings.Count(want, "\n") != 2 || !strings.Contains(string(files["IMAGES"]), want) {
			t.Errorf("IMAGES is\n%s, and the layout has\n%s", files["IMAGES"], want)
		}
	}
}

func untar(t *testing.T, archive []byte, dir string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSBOM reads the SBOMs with the library of the SPDX project, and compares what they list with go.mod.
func TestSBOM(t *testing.T) {
	required := string(harness.ReadT(t, "go.mod"))
	for _, a := range packedT(t) {
		text, err := a.sbom()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := spdx.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", a.name, err, text)
		}
		if err := spdxlib.ValidateDocument(doc); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(a.module))
		if p := doc.Packages[0]; p.PackageFileName != a.name+".wasm" || p.PackageChecksums[0].Value != sum {
			t.Errorf("%s describes %s with the checksum %v", a.name, p.PackageFileName, p.PackageChecksums)
		}
		for _, p := range doc.Packages[1:] {
			line := p.PackageName + " " + p.PackageVersion
			if p.PackageName != "stdlib" && !strings.Contains(required, "\t"+line+"\n") {
				t.Errorf("%s contains %s, which is not in go.mod", a.name, line)
			}
		}
		if len(doc.Packages) < 5 || len(doc.Relationships) != len(doc.Packages) {
			t.Errorf("%s: %d packages and %d relationships", a.name, len(doc.Packages), len(doc.Relationships))
		}
	}
}

// TestNoBuildInfo has modules refused of which nothing is known.
func TestNoBuildInfo(t *testing.T) {
	const header = "\x00asm\x01\x00\x00\x00"
	noted := string(infoStart) + "path\tx\nmod\tx\t(devel)\t\n" + string(infoEnd)
	for _, c := range []struct{ module, want string }{
		{header, "not built by Go"},
		{header + string(infoStart), "not built by Go"},
		{noted, "no Wasm module"},
		{header + "\x01\x7fxx" + noted, "cut off"},
		{header + string(infoStart) + "path\tx\nno line\n" + string(infoEnd), "cut off"},
	} {
		if _, err := buildInfo([]byte(c.module)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.module, err, c.want)
		}
	}
}

// TestUsage has wrong arguments and a wrong time refused.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"x"}, {"push"}, {"layout", "x"}} {
		if err := run(context.Background(), "../..", args, io.Discard); err == nil ||
			!strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: error %v", args, err)
		}
	}
	if at, err := sourceDate("1700000000"); err != nil || at.Year() != 2023 {
		t.Errorf("a time: %v, %v", at, err)
	}
	if _, err := sourceDate("yesterday"); err == nil {
		t.Error("a time that is no number was taken")
	}
}
