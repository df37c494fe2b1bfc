package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Files of a release that are not named after an artifact.
const (
	sumsFile   = "SHA256SUMS"
	imagesFile = "IMAGES"
)

// layouts writes an OCI layout for each artifact, in a folder of its name below dir. What was there is replaced.
func layouts(dir string, artifacts []*artifact) error {
	for _, a := range artifacts {
		if err := a.layout(filepath.Join(dir, a.name)); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return nil
}

// layout writes the artifact's images into dir, each under its tag, and their SBOMs.
func (a *artifact) layout(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for i := range a.images {
		image := &a.images[i]
		tag := layout.WithAnnotations(map[string]string{refNameKey: image.tag})
		if err := path.AppendImage(image.Image, tag); err != nil {
			return err
		}
	}
	for i := range a.bills {
		if err := path.AppendImage(a.bills[i].Image); err != nil {
			return err
		}
	}
	return nil
}

// release fills build/out/release: for each artifact the module, an archive of the layout and the SBOM; the Helm chart,
// the description for Higress's console, the license, the digests of the images and the checksums of all that.
func release(root string, artifacts []*artifact) error {
	dir := filepath.Join(root, "build/out/release")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	files, err := contents(root, artifacts)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	var sums strings.Builder
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return fmt.Errorf("image: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	if err := os.WriteFile(filepath.Join(dir, sumsFile), []byte(sums.String()), 0o644); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

// file is a file of a release.
type file struct {
	name    string
	content []byte
}

// contents returns the files of a release, but for their checksums.
func contents(root string, artifacts []*artifact) ([]file, error) {
	var files []file
	for _, a := range artifacts {
		archive, err := a.archive()
		if err != nil {
			return nil, fmt.Errorf("image: %s: %w", a.name, err)
		}
		bill, err := a.sbom()
		if err != nil {
			return nil, err
		}
		files = append(files, file{a.name + ".wasm", a.module}, file{a.name + "-" + a.version + ".oci.tar", archive},
			file{a.billFile(), bill})
	}
	packed, err := chart(root, artifacts[0].version, artifacts[0].created)
	if err != nil {
		return nil, err
	}
	files = append(files, *packed)
	for _, copied := range [][2]string{{"build/spec.yaml", "warmgate-higress.spec.yaml"}, {"LICENSE", "LICENSE"}} {
		text, err := os.ReadFile(filepath.Join(root, copied[0]))
		if err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		files = append(files, file{copied[1], text})
	}
	return append(files, file{imagesFile, []byte(list(artifacts))}), nil
}

// archive returns the artifact's layout as one file.
func (a *artifact) archive() ([]byte, error) {
	dir, err := os.MkdirTemp("", "warmgate-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := a.layout(filepath.Join(dir, a.name)); err != nil {
		return nil, err
	}
	tree := os.DirFS(filepath.Join(dir, a.name))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	// In the order of names, so always the same.
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return addFile(w, name, content, a.created)
	})
	return out.Bytes(), errors.Join(err, w.Close())
}
