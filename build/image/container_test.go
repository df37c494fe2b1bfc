package main

import (
	"bytes"
	"crypto/elliptic"
	"debug/elf"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestContainer pushes the image of the program, and runs what is pulled for this machine, as a container would.
func TestContainer(t *testing.T) {
	key, public := keyT(t, elliptic.P256())
	root, registry := sourcesT(t), registryT(t)
	var said [2]bytes.Buffer
	for i, args := range [][]string{{"push-program", registry}, {"layout-program"}} {
		if err := run(t.Context(), options{root: root, key: key}, args, &said[i]); err != nil {
			t.Fatal(err)
		}
	}
	if pushed := said[0].String(); pushed != said[1].String() || !strings.Contains(pushed, "signed with "+key) {
		t.Errorf("said: %s%s", pushed, said[1].String())
	}
	ref, err := name.ParseReference(registry + "/warmgate:" + packedT(t)[0].version)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil || !strings.HasPrefix(said[0].String(), "warmgate:"+ref.Identifier()+" "+digest.String()+" ") {
		t.Errorf("pulled %s, %v; said %s", digest, err, said[0].String())
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	signedImage(t, filepath.Join(root, "build/out/image/warmgate"), public, digest)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %v", platforms)
	}
	img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
	if err != nil {
		t.Fatal(err)
	}
	runs(t, img)
}

// runs runs an image's program.
func runs(t *testing.T, img v1.Image) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.User == "" || len(config.Config.Entrypoint) != 1 {
		t.Errorf("config %+v", config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	archive, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files, err := io.ReadAll(archive)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(harness.UntarT(t, files), config.Config.Entrypoint[0])
	if out, err := exec.CommandContext(t.Context(), program, "version").Output(); err != nil ||
		!strings.HasPrefix(string(out), "warmgate "+packedT(t)[0].version+" ") {
		t.Errorf("%s, %v", out, err)
	}
	binary, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs libraries, which the image has not")
		}
	}
}
