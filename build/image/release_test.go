package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
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
	root := t.TempDir()
	for _, name := range []string{
		"LICENSE", "CHANGELOG.md", "go.mod", "go.sum", "build/spec.yaml", "deploy/artifacthub-repo.yml",
		"build/out/warmgate-envoy.wasm", "build/out/warmgate-higress.wasm",
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
	t.Setenv("REVISION", revisionOf("../..")) // the copy has no repository
	var out strings.Builder
	if err := run(t.Context(), options{root: root, key: key}, []string{"release"}, &out); err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(root, "build/out/release/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files, out.String()
}

// keyT writes a key in PEM.
func keyT(t *testing.T, curve elliptic.Curve) (file string, public *ecdsa.PublicKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key.pem")
	text = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, &key.PublicKey
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
	if len(files) != 14 {
		t.Errorf("%d files, want 14: %q", len(files), slices.Sorted(maps.Keys(files)))
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
	if !strings.Contains(string(files["CHANGELOG-0.1.0.md"]), "### Added\n") {
		t.Errorf("what has changed: %.200s", files["CHANGELOG-0.1.0.md"])
	}
}

// TestOtherRevision has a release refused whose modules are of another commit than it would say.
func TestOtherRevision(t *testing.T) {
	packedT(t)
	t.Setenv("REVISION", strings.Repeat("0", 40))
	err := run(t.Context(), options{root: "../..", out: t.TempDir()}, []string{"release"}, io.Discard)
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

// TestSigned verifies the signatures of a release as cosign does, with the public key: those of all files and, by their
// tags in the layouts, those of all images. Files and checksums are those of a release that is not signed, but for the
// layouts.
func TestSigned(t *testing.T) {
	artifacts := packedT(t)
	key, public := keyT(t, elliptic.P256())
	files, said := releaseT(t, key)
	if !strings.Contains(said, "signed with "+key) {
		t.Errorf("said: %s", said)
	}
	again, _ := releaseT(t, key)
	if !maps.EqualFunc(files, again, bytes.Equal) {
		t.Error("the second release differs")
	}
	summed(t, files, 13)
	plain := 0
	for name, content := range files {
		if name == "cosign.pub" || strings.HasSuffix(name, ".sig") {
			continue
		}
		plain++
		verified(t, name, public, content, string(files[name+".sig"]))
	}
	if plain != 14 || len(files) != 2*plain+1 {
		t.Errorf("%d files, %d of them plain", len(files), plain)
	}
	block, _ := pem.Decode(files["cosign.pub"])
	if have, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil || !public.Equal(have) {
		t.Errorf("the public key is %v, %v", have, err)
	}
	for _, a := range artifacts {
		dir := t.TempDir()
		untar(t, files[a.name+"-"+a.version+".oci.tar"], dir)
		for i := range a.images {
			signedImage(t, dir, public, a.images[i].digest)
		}
	}
}

// verified checks a signature in base64.
func verified(t *testing.T, name string, public *ecdsa.PublicKey, content []byte, signature string) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(signature)
	sum := sha256.Sum256(content)
	if err != nil || !ecdsa.VerifyASN1(public, sum[:], raw) {
		t.Errorf("%s has the signature %q: %v", name, signature, err)
	}
}

// signedImage looks in a layout for the signature of an image.
func signedImage(t *testing.T, dir string, public *ecdsa.PublicKey, of v1.Hash) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Manifests, func(d v1.Descriptor) bool {
		return d.Annotations["org.opencontainers.image.ref.name"] == "sha256-"+of.Hex+".sig"
	})
	if at < 0 {
		t.Fatalf("%s has no signature", of)
	}
	img, err := index.Image(list.Manifests[at].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	payload, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	if d := manifest.Layers[0]; d.MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
		t.Errorf("the payload is of type %s", d.MediaType)
	}
	verified(t, of.String(), public, payload, manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	var claim struct {
		Critical struct {
			Image map[string]string
			Type  string
		}
	}
	if err := json.Unmarshal(payload, &claim); err != nil ||
		claim.Critical.Image["docker-manifest-digest"] != of.String() ||
		claim.Critical.Type != "cosign container image signature" {
		t.Errorf("signed is %s, %v", payload, err)
	}
}

// TestKeys has keys refused that cannot sign.
func TestKeys(t *testing.T) {
	other, _ := keyT(t, elliptic.P384())
	for name, c := range map[string]struct{ text, want string }{
		"another curve": {string(readT(t, other)), "not an ECDSA key on P-256"},
		"no key":        {"secret", "no private key in PEM"},
		"a public one":  {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no private key in PEM"},
		"damaged":       {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "asn1"},
		"cosign's": {
			"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n",
			"the key is encrypted",
		},
	} {
		file := filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKey(file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := readKey(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
}

func readT(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
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
