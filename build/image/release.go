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
	"slices"
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

// layout writes the artifact's images and their signatures into dir, each under its tag, and their SBOMs.
func (a *artifact) layout(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, image := range slices.Concat(a.images, a.signatures) {
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

// release fills a folder: for each artifact the module, an archive of the layout and the SBOM; the program warmgate for
// each platform; the Helm chart, what has changed, the description for Higress's console, what Artifact Hub reads, the
// license, the digests of the images, where all that comes from, the checksums, and with a key the signatures.
func release(o options, s *signer, artifacts []*artifact) error {
	programs, err := programsOf(o.root)
	if err != nil {
		return err
	}
	files, err := contents(o.root, artifacts, programs)
	if err != nil {
		return err
	}
	statement, err := provenanceOf(o.root, artifacts, programs, files)
	if err != nil {
		return err
	}
	files = append(files, *statement)
	var sums strings.Builder
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	files = append(files, file{sumsFile, []byte(sums.String())})
	signed, err := s.signatures(files)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	for _, f := range append(files, signed...) {
		if err := os.WriteFile(filepath.Join(o.out, f.name), f.content, 0o644); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return nil
}

// file is a file of a release.
type file struct {
	name    string
	content []byte
}

// contents returns the files of a release, but for what is told of them.
func contents(root string, artifacts []*artifact, programs []program) ([]file, error) {
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
	version := artifacts[0].version
	for i := range programs {
		archive, err := programs[i].archive(root, version, artifacts[0].created)
		if err != nil {
			return nil, fmt.Errorf("image: the program: %w", err)
		}
		files = append(files, *archive)
	}
	packed, err := chart(root, version, artifacts[0].created)
	if err != nil {
		return nil, err
	}
	files = append(files, *packed)
	for _, copied := range [][2]string{
		{"build/spec.yaml", "warmgate-higress.spec.yaml"},
		{"deploy/artifacthub-repo.yml", "artifacthub-repo.yml"},
		{"LICENSE", "LICENSE"},
		{"NOTICE", "NOTICE"},
		{"CHANGELOG.md", "CHANGELOG-" + version + ".md"},
	} {
		text, err := os.ReadFile(filepath.Join(root, copied[0]))
		if err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		if copied[0] == "CHANGELOG.md" {
			if text, err = section(text, version); err != nil {
				return nil, err
			}
		}
		files = append(files, file{copied[1], text})
	}
	return append(files, file{imagesFile, []byte(list(artifacts))}), nil
}

// section returns what a changelog says of a version. Before it is released that is under "Unreleased".
func section(changelog []byte, version string) ([]byte, error) {
	const heading = "\n## ["
	for _, name := range []string{version, "Unreleased"} {
		_, rest, ok := strings.Cut(string(changelog), heading+name+"]")
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, heading)
		_, text, _ = strings.Cut(text, "\n") // the date
		return []byte("# " + version + "\n\n" + strings.TrimSpace(text) + "\n"), nil
	}
	return nil, fmt.Errorf("image: CHANGELOG.md has no section %s", version)
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
