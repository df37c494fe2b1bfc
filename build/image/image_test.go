package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/warmgate/warmgate/e2e/harness"
)

// packed holds what packedT has made once, of a revision.
var (
	packed         []*artifact
	packedRevision string
)

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
	if packedRevision, err = revisionOf("../.."); err != nil {
		t.Fatal(err)
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
		if err := run(context.Background(), options{root: "../.."}, args, io.Discard); err == nil ||
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
