package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxFetched is the most that any fetcher reads of a module or an archive.
const maxFetched = 256 << 20

// A fetcher gets a module out of an image, by the rules of one gateway. They are told here in our own words. All three
// read the last layer, unless the image has the two layers of a Wasm artifact:
//
//  1. A manifest of Docker's type: the last layer is Docker's tar+gzip, and the module is the first file in it whose
//     name without folders is plugin.wasm.
//  2. Any other manifest, if its last layer is OCI's tar+gzip: the same.
//  3. Otherwise there must be exactly two layers, and the module is what the first of type
//     application/vnd.module.wasm.content.layer.v1+wasm holds, as it is: a compressed one is not unpacked.
//
// What comes out must begin as a Wasm module does. A checksum in the resource that names the image is compared with the
// manifest's digest, not with the module's.
type fetcher struct {
	gateway string
	// source is where the rules are: repository, commit, file. What is checked of the module is in cache.go beside it.
	source string
	// limited tells whether the raw layer is cut off at maxFetched as the archive is.
	limited bool
}

var fetchers = []fetcher{
	{"Istio", "istio/istio 86c9f01f pkg/wasm/imagefetcher.go", true},
	// The same file as in Istio 1.27.0, on a branch of which Higress 2.2 is built.
	{"Higress", "higress-group/istio 1dbd7735 pkg/wasm/imagefetcher.go", false},
	{"Envoy Gateway", "envoyproxy/gateway d32f2829 internal/wasm/imagefetcher.go", true},
}

// fetch returns the module in the image that url names, oci://..., if its manifest has the digest; "" takes any.
func (f *fetcher) fetch(ctx context.Context, url, digest string) ([]byte, error) {
	ref, err := name.ParseReference(strings.TrimPrefix(url, "oci://"))
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref, remote.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	have, err := img.Digest()
	if err != nil {
		return nil, err
	}
	if digest != "" && have.Hex != digest {
		return nil, fmt.Errorf("%s has the digest %s, not %s", url, have.Hex, digest)
	}
	module, err := f.extract(img)
	if err == nil && !bytes.HasPrefix(module, []byte("\x00asm")) {
		err = errors.New("no Wasm module")
	}
	return module, err
}

// extract goes through the three forms.
func (f *fetcher) extract(img v1.Image) ([]byte, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	if manifest.MediaType == types.DockerManifestSchema2 {
		return fromArchive(img, types.DockerLayer)
	}
	module, errArchive := fromArchive(img, types.OCILayer)
	if errArchive == nil {
		return module, nil
	}
	module, errRaw := f.fromLayer(img)
	if errRaw == nil {
		return module, nil
	}
	return nil, errors.Join(errArchive, errRaw)
}

// fromArchive reads the last layer, which must be of the given type.
func fromArchive(img v1.Image, want types.MediaType) ([]byte, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, errors.New("no layers")
	}
	last := layers[len(layers)-1]
	if have, err := last.MediaType(); err != nil || have != want {
		return nil, fmt.Errorf("the last layer is of type %s, not %s: %w", have, want, err)
	}
	content, err := last.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	unzipped, err := gzip.NewReader(content)
	if err != nil {
		return nil, err
	}
	for archive := tar.NewReader(io.LimitReader(unzipped, maxFetched)); ; {
		header, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("plugin.wasm not found in the archive: %w", err)
		}
		if path.Base(header.Name) == "plugin.wasm" {
			return io.ReadAll(archive)
		}
	}
}

// fromLayer reads the layer that is the module.
func (f *fetcher) fromLayer(img v1.Image) ([]byte, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != 2 {
		return nil, fmt.Errorf("%d layers, not 2", len(layers))
	}
	for _, layer := range layers {
		if kind, err := layer.MediaType(); err != nil || kind != "application/vnd.module.wasm.content.layer.v1+wasm" {
			continue
		}
		content, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		defer content.Close()
		if f.limited {
			return io.ReadAll(io.LimitReader(content, maxFetched))
		}
		return io.ReadAll(content)
	}
	return nil, errors.New("no layer with a module")
}

// registryT serves an empty registry on 127.0.0.1 until the test ends, and returns its address.
func registryT(t *testing.T, options ...registry.Option) string {
	t.Helper()
	options = append(options, registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(registry.New(options...))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestFetch pushes the images to a registry and gets the modules back by the rules of each gateway, by tag, by digest
// and with a checksum.
func TestFetch(t *testing.T) {
	artifacts := packedT(t)
	address := registryT(t) + "/warmgate"
	if err := push(t.Context(), address, artifacts); err != nil {
		t.Fatal(err)
	}
	for _, a := range artifacts {
		for i := range a.images {
			image := &a.images[i]
			tagged := "oci://" + address + "/" + a.name + ":" + image.tag
			pinned := "oci://" + address + "/" + a.name + "@" + image.digest.String()
			for _, f := range fetchers {
				for _, c := range []struct{ url, sum string }{{tagged, ""}, {tagged, image.digest.Hex}, {pinned, ""}} {
					if got, err := f.fetch(t.Context(), c.url, c.sum); err != nil || !bytes.Equal(got, a.module) {
						t.Errorf("%s (%s), %s: %d bytes, %v", f.gateway, f.source, c.url, len(got), err)
					}
				}
				_, err := f.fetch(t.Context(), tagged, fmt.Sprintf("%x", sha256.Sum256(a.module)))
				if err == nil || !strings.Contains(err.Error(), "the digest") {
					t.Errorf("%s, %s with the module's checksum: error %v", f.gateway, tagged, err)
				}
			}
		}
	}
}

// TestAttached pushes the images to registries that know what is attached to an image, and that do not, and looks for
// the SBOM of each.
func TestAttached(t *testing.T) {
	artifacts := packedT(t)
	for _, knows := range []bool{true, false} {
		address := registryT(t, registry.WithReferrersSupport(knows)) + "/warmgate"
		for range 2 { // again, and nothing is there twice
			if err := push(t.Context(), address, artifacts); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range artifacts {
			for i := range a.images {
				attachedTo(t, a, address, &a.images[i])
			}
		}
	}
}

// attachedTo checks that an image has the SBOM, and nothing else, attached.
func attachedTo(t *testing.T, a *artifact, address string, of *image) {
	t.Helper()
	ref, err := name.NewDigest(address + "/" + a.name + "@" + of.digest.String())
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Referrers(ref)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != spdxType {
		t.Fatalf("%s:%s has %+v", a.name, of.tag, list.Manifests)
	}
	bill, err := remote.Image(ref.Context().Digest(list.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	got := onlyLayer(t, bill)
	if want, err := a.sbom(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s:%s: %d bytes of an SBOM, %v", a.name, of.tag, len(got), err)
	}
}

// onlyLayer returns what the only layer of an image holds, as it is in a registry.
func onlyLayer(t *testing.T, img v1.Image) []byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	packed, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	content, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestFetchRefuses has each gateway's rules refuse images that look right and are not.
func TestFetchRefuses(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00")
	zipped := func(name string, content []byte) v1.Layer {
		layer, _, err := compress(name, content, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return layer
	}
	gz, err := zipped(moduleFile, module).Compressed()
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := io.ReadAll(gz)
	if err != nil {
		t.Fatal(err)
	}
	config := static.NewLayer([]byte("{}"), configLayer)
	address := registryT(t)
	for i, c := range []struct {
		what   string
		layers []v1.Layer
		want   string
	}{
		{"a module that another layer follows, as a Dockerfile with a second COPY makes it", []v1.Layer{
			zipped(moduleFile, module), zipped("spec.yaml", nil),
		}, "not found in the archive"},
		{"a third layer", []v1.Layer{config, config, static.NewLayer(module, contentLayer)}, "3 layers, not 2"},
		{"a compressed module", []v1.Layer{config, static.NewLayer(compressed, contentLayer)}, "no Wasm module"},
		{"a module alone", []v1.Layer{static.NewLayer(module, contentLayer)}, "1 layers, not 2"},
		{
			"the console's description last",
			[]v1.Layer{config, static.NewLayer(nil, "application/yaml")},
			"no layer with a module",
		},
	} {
		a := &artifact{name: "x", version: "1"}
		img, err := (&core{config: []byte("{}"), layers: c.layers}).build(a, emptyConfig)
		if err != nil {
			t.Fatal(err)
		}
		img.tag = fmt.Sprint(i)
		a.images = []image{*img}
		if err := push(t.Context(), address+"/test", []*artifact{a}); err != nil {
			t.Fatal(err)
		}
		for _, f := range fetchers {
			_, err := f.fetch(t.Context(), "oci://"+address+"/test/x:"+img.tag, "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: error %v, want %q", f.gateway, c.what, err, c.want)
			}
		}
	}
}
