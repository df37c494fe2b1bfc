package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/warmgate/warmgate/e2e/harness"
)

// releaseT writes a release in a copy of what it is made of, and returns its files, with what the program says.
func releaseT(t *testing.T, key string) (files map[string][]byte, said string) {
	t.Helper()
	root := sourcesT(t)
	t.Setenv("REVISION", packedRevision) // the copy has no repository
	var out strings.Builder
	if err := run(t.Context(), options{root: root, key: key}, []string{"release"}, &out); err != nil {
		t.Fatal(err)
	}
	return harness.FilesT(t, filepath.Join(root, "build/out/release")), out.String()
}

// sourcesT copies what a release is made of into a folder. The program is that for this machine, on all platforms.
func sourcesT(t *testing.T) (root string) {
	t.Helper()
	artifacts := packedT(t)
	sources := map[string][]byte{}
	for _, name := range []string{
		"LICENSE", "NOTICE", "CHANGELOG.md", "go.mod", "go.sum", "build/revision.sh", "build/spec.yaml",
		"deploy/artifacthub-repo.yml",
	} {
		sources[name] = harness.ReadT(t, name)
	}
	for _, a := range artifacts {
		sources["build/out/"+a.name+".wasm"] = a.module
	}
	if out, err := exec.CommandContext(t.Context(), "../warmgate.sh").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, platform := range platforms {
		sources["build/out/warmgate-"+platform] = harness.ReadT(t, "build/out/warmgate")
	}
	root = t.TempDir()
	for name, content := range sources {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(root, "deploy/helm"), os.DirFS(harness.PathT(t, "deploy/helm"))); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestRelease writes a release twice, with nothing in common but the modules, compares every byte, and then what the
// files say of each other.
func TestRelease(t *testing.T) {
	artifacts := packedT(t)
	files, said := releaseT(t, "")
	again, _ := releaseT(t, "")
	if !maps.EqualFunc(files, again, bytes.Equal) {
		t.Error("the second release differs")
	}
	if len(files) != 19 {
		t.Errorf("%d files, want 19: %q", len(files), slices.Sorted(maps.Keys(files)))
	}
	if !strings.Contains(said, "nothing is signed") {
		t.Errorf("said without a key: %s", said)
	}
	summed(t, files, len(files)-1)
	for _, a := range artifacts {
		manifest := indexT(t, files, a)
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

// TestNotice has what the licenses of linked modules ask to be told stand in NOTICE, as the modules have it.
func TestNotice(t *testing.T) {
	notice := harness.ReadT(t, "NOTICE")
	for module := range licenses {
		args := []string{"-C", harness.PathT(t, "."), "list", "-m", "-f", "{{.Dir}}", module}
		if module == "stdlib" {
			args = []string{"env", "GOROOT"}
		}
		out, err := exec.Command("go", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimSpace(string(out))
		found := 0
		for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			found++
			// CC0 asks for nothing, and the Apache License is the release's own LICENSE.
			covered := name != "NOTICE" && (licenses[module] == "CC0-1.0" || licenses[module] == license)
			if !covered && !bytes.Contains(notice, bytes.TrimSpace(text)) {
				t.Errorf("NOTICE is without %s of %s", name, module)
			}
		}
		if found == 0 {
			t.Errorf("%s has no license in %s", module, dir)
		}
		if module != "stdlib" && !bytes.Contains(notice, []byte(module)) {
			t.Errorf("NOTICE does not name %s", module)
		}
	}
}

// summed checks that SHA256SUMS has n files, with their checksums.
func summed(t *testing.T, files map[string][]byte, n int) {
	t.Helper()
	lines := 0
	for in := bufio.NewScanner(bytes.NewReader(files["SHA256SUMS"])); in.Scan(); lines++ {
		sum, name, _ := strings.Cut(in.Text(), "  ")
		content, ok := files[name]
		if want := fmt.Sprintf("%x", sha256.Sum256(content)); !ok || sum != want {
			t.Errorf("SHA256SUMS: %q, want %s", in.Text(), want)
		}
	}
	if lines != n {
		t.Errorf("SHA256SUMS has %d lines, want %d", lines, n)
	}
}

// indexT reads the index of an artifact's layout.
func indexT(t *testing.T, files map[string][]byte, a *artifact) *v1.IndexManifest {
	t.Helper()
	index, err := layout.ImageIndexFromPath(harness.UntarT(t, files[a.name+"-"+a.version+".oci.tar"]))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// TestProvenance compares what the statement says with the files, with the images and with go.sum.
func TestProvenance(t *testing.T) {
	files, _ := releaseT(t, "")
	var doc statement
	if err := json.Unmarshal(files[provenanceFile], &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Type != "https://in-toto.io/Statement/v1" || doc.PredicateType != "https://slsa.dev/provenance/v1" ||
		doc.Predicate.RunDetails.Builder.ID == "" || doc.Predicate.BuildDefinition.BuildType == "" {
		t.Errorf("%s", files[provenanceFile])
	}
	images := 0
	for _, s := range doc.Subject {
		if content, ok := files[s.Name]; ok {
			if want := fmt.Sprintf("%x", sha256.Sum256(content)); s.Digest["sha256"] != want {
				t.Errorf("%s has the digest %q, want %s", s.Name, s.Digest, want)
			}
			continue
		}
		if want := s.Name + " sha256:" + s.Digest["sha256"] + " "; !strings.Contains(string(files["IMAGES"]), want) {
			t.Errorf("%s is no file and no image", s.Name)
		}
		images++
	}
	if n := len(files) - 2; images != 4 || len(doc.Subject) != n+4 { // but for the sums and itself
		t.Errorf("%d subjects, of which %d are images; want %d files and 4 images", len(doc.Subject), images, n)
	}
	sums := string(harness.ReadT(t, "go.sum"))
	modules := 0
	for _, d := range doc.Predicate.BuildDefinition.ResolvedDependencies {
		path, ok := strings.CutPrefix(d.URI, "pkg:golang/")
		if !ok || d.Digest == nil {
			continue
		}
		modules++
		raw := make([]byte, sha256.Size)
		if _, err := fmt.Sscanf(d.Digest["dirHash"], "%x", &raw); err != nil {
			t.Error(err)
		}
		line := strings.Replace(path, "@", " ", 1) + " h1:" + base64.StdEncoding.EncodeToString(raw) + "\n"
		if !strings.Contains(sums, line) {
			t.Errorf("go.sum has no line %s", line)
		}
	}
	if modules < 3 {
		t.Errorf("%d modules", modules)
	}
	if source := doc.Predicate.BuildDefinition.ResolvedDependencies[0]; source.URI != "git+"+sourceURL &&
		source.URI != "git+"+sourceURL+"@"+source.Digest["gitCommit"] {
		t.Errorf("the source is %+v", source)
	}
	if changes := files["CHANGELOG-"+packed[0].version+".md"]; !strings.Contains(string(changes), "### Added\n") {
		t.Errorf("what has changed: %.200s", changes)
	}
}

// TestOtherRevision has a release refused whose modules are of another commit than it would say.
func TestOtherRevision(t *testing.T) {
	root := sourcesT(t)
	t.Setenv("REVISION", strings.Repeat("0", 40))
	err := run(t.Context(), options{root: root}, []string{"release"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not of the revision") {
		t.Errorf("error %v", err)
	}
	for text, want := range map[string]bool{"\x00ab12\x00": true, "\x00ab12-dirty\x00": false, "\x00ab13": false} {
		if isOf([]byte(text), "ab12") != want {
			t.Errorf("%q is of ab12: %v", text, !want)
		}
	}
	if !isOf([]byte("\x00ab12-dirty"), "ab12-dirty") {
		t.Error("a module with changes is not of itself")
	}
}

// TestPrograms unpacks the program of each platform, and compares the list of platforms with what is built.
func TestPrograms(t *testing.T) {
	files, _ := releaseT(t, "")
	built := strings.Join(platforms, " ")
	if text := harness.ReadT(t, "build/warmgate.mk"); !strings.Contains(string(text), "PLATFORMS = "+built+"\n") {
		t.Errorf("build/warmgate.mk does not build %s", built)
	}
	for _, platform := range platforms {
		z, err := gzip.NewReader(bytes.NewReader(files["warmgate-"+packed[0].version+"-"+platform+".tar.gz"]))
		if err != nil {
			t.Fatal(err)
		}
		archive, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		dir := harness.UntarT(t, archive)
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "warmgate"), "version").Output()
		if err != nil || !strings.HasPrefix(string(out), "warmgate "+packed[0].version+" (commit "+packedRevision) {
			t.Errorf("%s: %s, %v", platform, out, err)
		}
		for _, name := range []string{"LICENSE", "NOTICE"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestProgramsAreKnown has programs refused of which nothing is known.
func TestProgramsAreKnown(t *testing.T) {
	root := t.TempDir()
	if _, err := programsOf(root); err == nil || !strings.Contains(err.Error(), "make programs") {
		t.Error(err)
	}
	name := filepath.Join(root, "build/out/warmgate-"+platforms[0])
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := programsOf(root); err == nil || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
}

// TestSection cuts the part of one version out of a changelog.
func TestSection(t *testing.T) {
	const log = "# Changelog\n\n## [Unreleased]\n\nNew.\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- A.\n\n" +
		"## [0.1.0] - x\n- B.\n"
	for version, want := range map[string]string{
		"0.1.0": "# 0.1.0\n\n- B.\n", "0.2.0": "# 0.2.0\n\n### Added\n\n- A.\n", "0.3.0": "# 0.3.0\n\nNew.\n",
	} {
		if got, err := section([]byte(log), version); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if _, err := section([]byte("# Changelog\n"), "0.1.0"); err == nil {
		t.Error("a changelog without sections has one")
	}
}
