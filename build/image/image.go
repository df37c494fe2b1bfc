package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What the fetchers of Higress, Istio and Envoy Gateway look for. The file's name counts in the compatible form only.
const (
	moduleFile                   = "plugin.wasm"
	configLayer  types.MediaType = "application/vnd.module.wasm.config.v1+json"
	contentLayer types.MediaType = "application/vnd.module.wasm.content.layer.v1+wasm"
)

// spdxType is what an SBOM is, as a layer and as an artifact.
const spdxType = "application/spdx+json"

// What oras writes where nothing else is asked for: Higress's releases have it.
const (
	artifactType                 = "application/vnd.unknown.artifact.v1"
	emptyConfig  types.MediaType = "application/vnd.oci.empty.v1+json"
)

// Annotations of the OCI image specification.
const (
	annotation = "org.opencontainers.image."
	titleKey   = annotation + "title"
	refNameKey = annotation + "ref.name"
)

// maxCompressed is the largest image of the compatible form, in bytes.
const maxCompressed = 2_500_000

// image is one form of an artifact's image, or the signature of one, or the SBOM of one, which has no tag: it names the
// image that it is of.
type image struct {
	v1.Image
	tag    string
	digest v1.Hash // of the manifest
	size   int64   // of manifest, config and layers, in bytes
}

// pack makes the images, VERSION in the form of Higress's releases and VERSION-compat in the compatible one, and an
// SBOM of each.
func (a *artifact) pack() error {
	layer, diff, err := compress(moduleFile, a.module, a.created)
	if err != nil {
		return fmt.Errorf("image: %s: %w", a.name, err)
	}
	config, err := imageConfig(diff, a.created)
	if err != nil {
		return fmt.Errorf("image: %s: %w", a.name, err)
	}
	forms := []struct {
		tag    string
		core   *core
		config types.MediaType
	}{
		{a.version, &core{
			config: []byte("{}"),
			layers: []v1.Layer{
				static.NewLayer([]byte("{}"), configLayer), static.NewLayer(a.module, contentLayer),
			},
			annotations: titled("config.json", moduleFile),
		}, emptyConfig},
		{a.version + "-compat", &core{config: config, layers: []v1.Layer{layer}}, types.OCIConfigJSON},
	}
	for _, f := range forms {
		img, err := f.core.build(a, f.config)
		if err != nil {
			return fmt.Errorf("image: %s:%s: %w", a.name, f.tag, err)
		}
		img.tag = f.tag
		a.images = append(a.images, *img)
		bill, err := a.attach(img)
		if err != nil {
			return err
		}
		a.bills = append(a.bills, *bill)
	}
	if size := a.images[1].size; size > maxCompressed {
		return fmt.Errorf("image: %s:%s has %d bytes, more than the budget of %d", a.name, a.images[1].tag, size,
			maxCompressed)
	}
	return nil
}

// attach makes the SBOM of an image as OCI 1.1 has it: an artifact that names the image as its subject.
func (a *artifact) attach(of *image) (*image, error) {
	text, err := a.sbom()
	if err != nil {
		return nil, err
	}
	size, err := of.Size()
	if err != nil {
		return nil, fmt.Errorf("image: %s: %w", a.name, err)
	}
	bill, err := (&core{
		config: []byte("{}"), layers: []v1.Layer{static.NewLayer(text, spdxType)}, annotations: titled(a.billFile()),
		subject: &v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: of.digest, Size: size},
	}).build(a, spdxType)
	if err != nil {
		return nil, fmt.Errorf("image: %s: SBOM: %w", a.name, err)
	}
	return bill, nil
}

// list returns a line for each image: its name, digest and size.
func list(artifacts []*artifact) string {
	var out strings.Builder
	for _, a := range artifacts {
		for i := range a.images {
			image := &a.images[i]
			fmt.Fprintf(&out, "%s:%s %s %d bytes\n", a.name, image.tag, image.digest, image.size)
		}
	}
	return out.String()
}

// core is an image as its parts. It implements partial.CompressedImageCore, of which the library makes the rest: the
// library's own images have a config that lists layers, which the form of Higress's releases has not.
type core struct {
	config      []byte
	layers      []v1.Layer
	annotations []map[string]string // of the layers; may be nil
	subject     *v1.Descriptor
	manifest    []byte
}

// build writes the manifest.
func (c *core) build(a *artifact, configType types.MediaType) (*image, error) {
	config, err := partial.Descriptor(static.NewLayer(c.config, configType))
	if err != nil {
		return nil, err
	}
	manifest := struct {
		v1.Manifest
		ArtifactType string `json:"artifactType,omitempty"`
	}{Manifest: v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        *config,
		Subject:       c.subject,
		Annotations: map[string]string{
			titleKey:                a.name,
			annotation + "version":  a.version,
			annotation + "licenses": license,
			annotation + "source":   sourceURL,
		},
	}}
	switch configType {
	case emptyConfig:
		manifest.ArtifactType = artifactType
	case spdxType: // some tell the type of an artifact by this, others by its config
		manifest.ArtifactType = spdxType
	}
	size := config.Size
	for i, layer := range c.layers {
		d, err := partial.Descriptor(layer)
		if err != nil {
			return nil, err
		}
		if c.annotations != nil {
			d.Annotations = c.annotations[i]
		}
		manifest.Layers = append(manifest.Layers, *d)
		size += d.Size
	}
	if c.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	img, err := partial.CompressedToImage(c)
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	return &image{Image: img, digest: digest, size: size + int64(len(c.manifest))}, err
}

// titled are annotations of layers by which oras names the files that it pulls.
func titled(names ...string) (annotations []map[string]string) {
	for _, name := range names {
		annotations = append(annotations, map[string]string{titleKey: name})
	}
	return annotations
}

// RawConfigFile implements partial.CompressedImageCore.
func (c *core) RawConfigFile() ([]byte, error) { return c.config, nil }

// RawManifest implements partial.CompressedImageCore.
func (c *core) RawManifest() ([]byte, error) { return c.manifest, nil }

// MediaType implements partial.CompressedImageCore.
func (c *core) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (c *core) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, layer := range c.layers {
		if digest, err := layer.Digest(); err == nil && digest == h {
			// The compressed side alone: what is inside is for the library to find out.
			return struct{ partial.CompressedLayer }{layer}, nil
		}
	}
	return nil, fmt.Errorf("no layer %s", h)
}

// compress returns a layer of the compatible form: an archive of one file, as small as gzip gets it, and the digest of
// the archive before that.
func compress(name string, content []byte, created time.Time) (v1.Layer, v1.Hash, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := addFile(w, name, content, created); err != nil {
		return nil, v1.Hash{}, err
	}
	if err := w.Close(); err != nil {
		return nil, v1.Hash{}, err
	}
	diff, _, err := v1.SHA256(bytes.NewReader(archive.Bytes()))
	if err != nil {
		return nil, v1.Hash{}, err
	}
	packed, err := zipped(archive.Bytes())
	if err != nil {
		return nil, v1.Hash{}, err
	}
	return static.NewLayer(packed, types.OCILayer), diff, nil
}

// zipped returns content as small as gzip gets it, without a time or a name.
func zipped(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// addFile adds a file to an archive. Nothing of the machine gets into it: no owner and no time but the given one.
func addFile(w *tar.Writer, name string, content []byte, created time.Time) error {
	return addMode(w, name, 0o644, content, created)
}

// addProgram adds a file that can be run.
func addProgram(w *tar.Writer, name string, content []byte, created time.Time) error {
	return addMode(w, name, 0o755, content, created)
}

func addMode(w *tar.Writer, name string, mode int64, content []byte, created time.Time) error {
	header := &tar.Header{
		Name: name, Mode: mode, Size: int64(len(content)), ModTime: created, Format: tar.FormatUSTAR,
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// imageConfig returns the config of the compatible form, as `docker build` writes it for an image from scratch. The
// platform means nothing to the module: it is the one that fetchers ask for by default.
func imageConfig(diff v1.Hash, created time.Time) ([]byte, error) {
	return json.Marshal(v1.ConfigFile{
		Architecture: "amd64",
		OS:           "linux",
		Created:      v1.Time{Time: created},
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
	})
}
