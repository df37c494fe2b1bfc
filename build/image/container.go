package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user of a container: one without rights.
const nobody = "65532:65532"

// container is the image of the program warmgate, to be run: an index with an image for each platform.
type container struct {
	of        artifact
	index     v1.ImageIndex
	signature *image // with a key
}

// newContainer makes the image of the programs for Linux that `make programs` has built, and signs it.
func newContainer(root string, s *signer) (*container, error) {
	version, created, err := versionOf(root)
	if err != nil {
		return nil, err
	}
	programs, err := programsOf(root)
	if err != nil {
		return nil, err
	}
	c := &container{
		of:    artifact{name: "warmgate", version: version, created: created},
		index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
	}
	for i := range programs {
		system, architecture, _ := strings.Cut(programs[i].platform, "-")
		if system != "linux" {
			continue
		}
		img, err := c.image(root, &programs[i], architecture)
		if err != nil {
			return nil, fmt.Errorf("image: %s: %w", programs[i].platform, err)
		}
		platform := &v1.Platform{OS: system, Architecture: architecture}
		c.index = mutate.AppendManifests(c.index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	if s.key == nil {
		return c, nil
	}
	digest, err := c.index.Digest()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	if c.signature, err = s.image(&c.of, &image{digest: digest}); err != nil {
		return nil, fmt.Errorf("image: sign %s: %w", c.of.name, err)
	}
	return c, nil
}

// image makes the image for one platform: what a release has in an archive, with the program as what is run.
func (c *container) image(root string, p *program, architecture string) (v1.Image, error) {
	archive, err := p.archive(root, c.of.version, c.of.created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: architecture,
		OS:           "linux",
		Created:      v1.Time{Time: c.of.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/warmgate"},
			User:       nobody,
			Labels: map[string]string{
				titleKey: c.of.name, annotation + "version": c.of.version,
				annotation + "licenses": license, annotation + "source": sourceURL,
			},
		},
	}); err != nil {
		return nil, err
	}
	history := v1.History{Created: v1.Time{Time: c.of.created}, CreatedBy: "make program-image"}
	return mutate.Append(img, mutate.Addendum{Layer: layer, History: history})
}

// list returns a line with name, digest and size of the image, the latter over all platforms.
func (c *container) list() (string, error) {
	digest, err := c.index.Digest()
	if err != nil {
		return "", err
	}
	manifest, err := c.index.IndexManifest()
	if err != nil {
		return "", err
	}
	var size int64
	for _, m := range manifest.Manifests {
		img, err := c.index.Image(m.Digest)
		if err != nil {
			return "", err
		}
		layers, err := img.Layers()
		if err != nil {
			return "", err
		}
		n, err := layers[0].Size()
		if err != nil {
			return "", err
		}
		size += n
	}
	return fmt.Sprintf("%s:%s %s %d bytes\n", c.of.name, c.of.version, digest, size), nil
}

// layout writes the image and its signature into a folder. What was there is replaced.
func (c *container) layout(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	named := func(tag string) layout.Option { return layout.WithAnnotations(map[string]string{refNameKey: tag}) }
	err = path.AppendIndex(c.index, named(c.of.version))
	if c.signature != nil {
		err = errors.Join(err, path.AppendImage(c.signature.Image, named(c.signature.tag)))
	}
	return err
}

// push writes the image and its signature to a registry.
func (c *container) push(ctx context.Context, registry string) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	to := func(tag string) (name.Tag, error) { return name.NewTag(registry + "/" + c.of.name + ":" + tag) }
	ref, err := to(c.of.version)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := remote.WriteIndex(ref, c.index, options...); err != nil {
		return fmt.Errorf("image: push %s: %w", ref, err)
	}
	if c.signature == nil {
		return nil
	}
	if ref, err = to(c.signature.tag); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := remote.Write(ref, c.signature.Image, options...); err != nil {
		return fmt.Errorf("image: push %s: %w", ref, err)
	}
	return nil
}

// containers does what the arguments say of the image of the program.
func containers(ctx context.Context, o options, s *signer, args []string) (string, error) {
	c, err := newContainer(o.root, s)
	if err != nil {
		return "", err
	}
	if len(args) > 1 {
		err = c.push(ctx, args[1])
	} else {
		err = c.layout(filepath.Join(o.root, "build/out/image", c.of.name))
	}
	if err != nil {
		return "", err
	}
	return c.list()
}
