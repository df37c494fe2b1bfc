package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
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

// TestSigned verifies the signatures of a release as cosign does, with the public key: those of all files and, by their
// tags in the layouts, those of all images.
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
	summed(t, files, 18)
	plain := 0
	for name, content := range files {
		if name == "cosign.pub" || strings.HasSuffix(name, ".sig") {
			continue
		}
		plain++
		harness.VerifiedT(t, name, public, content, string(files[name+".sig"]))
	}
	if plain != 19 || len(files) != 2*plain+1 {
		t.Errorf("%d files, %d of them plain", len(files), plain)
	}
	block, _ := pem.Decode(files["cosign.pub"])
	if have, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil || !public.Equal(have) {
		t.Errorf("the public key is %v, %v", have, err)
	}
	for _, a := range artifacts {
		dir := harness.UntarT(t, files[a.name+"-"+a.version+".oci.tar"])
		for i := range a.images {
			signedImage(t, dir, public, a.images[i].digest)
		}
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
	payload, layer := onlyLayer(t, img), manifest.Layers[0]
	if layer.MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
		t.Errorf("the payload is of type %s", layer.MediaType)
	}
	harness.VerifiedT(t, of.String(), public, payload, layer.Annotations["dev.cosignproject.cosign/signature"])
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

// TestCommands runs the commands of docs/artifacts.md that make a key and verify a release, but for cosign's. The last
// one has to notice another text.
func TestCommands(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	dir, last := t.TempDir(), ""
	shell := func(command string) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = dir
		return cmd.Run()
	}
	_, text, _ := strings.Cut(string(harness.ReadT(t, "docs/artifacts.md")), "\n### Sign\n")
	for _, line := range strings.Split(text, "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok || strings.HasPrefix(command, "cosign ") {
			continue
		}
		if command == "make release KEY=release-key.pem" {
			files, _ := releaseT(t, filepath.Join(dir, "release-key.pem"))
			writeT(t, dir, files)
		} else if err := shell(command); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		last = command
	}
	writeT(t, dir, map[string][]byte{"SHA256SUMS": []byte("others\n")})
	if err := shell(last); err == nil {
		t.Errorf("%s: other sums pass", last)
	}
}

func writeT(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
