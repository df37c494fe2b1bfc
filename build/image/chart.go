package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// chart returns the Helm chart as one file, as helm package would, but always the same bytes. Its version has to be
// that of the artifacts.
func chart(root, version string, created time.Time) (*file, error) {
	tree := os.DirFS(filepath.Join(root, "deploy/helm"))
	text, err := fs.ReadFile(tree, "Chart.yaml")
	if err != nil {
		return nil, fmt.Errorf("image: chart: %w", err)
	}
	var about struct{ Name, Version string }
	if err := yaml.Unmarshal(text, &about); err != nil {
		return nil, fmt.Errorf("image: chart: %w", err)
	}
	if about.Version != version {
		return nil, fmt.Errorf("image: chart: version %s, want that of the artifacts, %s", about.Version, version)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	// In the order of names, so always the same.
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no file", name)
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return addFile(w, path.Join(about.Name, name), located(content), created)
	})
	if err != nil {
		return nil, fmt.Errorf("image: chart: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("image: chart: %w", err)
	}
	packed, err := zipped(archive.Bytes())
	return &file{about.Name + "-" + version + ".tgz", packed}, err
}

// located returns a file of the chart in which images are where REGISTRY says that they will be: for Artifact Hub, and
// by default.
func located(content []byte) []byte {
	registry := os.Getenv("REGISTRY")
	if registry == "" {
		return content
	}
	return []byte(strings.NewReplacer(
		"image: registry.example.com/warmgate", "image: "+registry, `registry: ""`, "registry: "+registry,
	).Replace(string(content)))
}
