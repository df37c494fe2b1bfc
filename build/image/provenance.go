package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// provenanceFile says where the files of a release come from.
const provenanceFile = "provenance.intoto.json"

// builderID names what has built a release, unless BUILDER does: whoever runs make.
const builderID = sourceURL + "/blob/main/build/image.mk"

// The part of an in-toto statement, see https://in-toto.io/Statement/v1, and of provenance in SLSA 1.0, see
// https://slsa.dev/spec/v1.0/provenance, that a release has.
type (
	statement struct {
		Type          string               `json:"_type"`
		Subject       []resourceDescriptor `json:"subject"`
		PredicateType string               `json:"predicateType"`
		Predicate     provenance           `json:"predicate"`
	}
	provenance struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string               `json:"buildType"`
		ExternalParameters   map[string]string    `json:"externalParameters"`
		InternalParameters   map[string]string    `json:"internalParameters"`
		ResolvedDependencies []resourceDescriptor `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	}
	resourceDescriptor struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
)

// commit is a revision whose source anybody can get: that of a tree without changes.
var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// revisionOf is what the modules of a source tree name.
func revisionOf(root string) (string, error) {
	text, err := exec.Command(filepath.Join(root, "build/revision.sh")).Output()
	return strings.TrimSpace(string(text)), err
}

// isOf reports whether a module is of a revision, and not of one with changes.
func isOf(module []byte, revision string) bool {
	return bytes.Contains(module, []byte(revision)) && !bytes.Contains(module, []byte(revision+"-dirty"))
}

// provenanceOf returns a statement on where files and images come from.
func provenanceOf(root string, artifacts []*artifact, programs []program, files []file) (*file, error) {
	revision, err := revisionOf(root)
	if err != nil {
		return nil, fmt.Errorf("image: provenance: build/revision.sh: %w", err)
	}
	doc := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, f := range files {
		doc.Subject = append(doc.Subject, resourceDescriptor{Name: f.name, Digest: sha256Of(f.content)})
	}
	for _, a := range artifacts {
		if !isOf(a.module, revision) {
			return nil, fmt.Errorf("image: %s.wasm is not of the revision %s (run make wasm)", a.name, revision)
		}
		for i := range a.images {
			image := &a.images[i]
			doc.Subject = append(doc.Subject, resourceDescriptor{
				Name: a.name + ":" + image.tag, Digest: map[string]string{"sha256": image.digest.Hex},
			})
		}
	}
	for i := range programs {
		if p := &programs[i]; !isOf(p.content, revision) {
			return nil, fmt.Errorf("image: warmgate-%s is not of the revision %s (run make programs)", p.platform,
				revision)
		}
	}
	source := resourceDescriptor{URI: "git+" + sourceURL}
	if commit.MatchString(revision) {
		source.URI += "@" + revision
		source.Digest = map[string]string{"gitCommit": revision}
	}
	lists, err := listsOf(root)
	if err != nil {
		return nil, fmt.Errorf("image: provenance: %w", err)
	}
	modules, release, err := modulesOf(artifacts, programs)
	if err != nil {
		return nil, fmt.Errorf("image: provenance: %w", err)
	}
	doc.Predicate.BuildDefinition = buildDefinition{
		BuildType:          sourceURL + "/blob/main/docs/artifacts.md#provenance",
		ExternalParameters: map[string]string{"target": "release", "source": source.URI, "revision": revision},
		InternalParameters: map[string]string{
			"go": release, "SOURCE_DATE_EPOCH": fmt.Sprint(artifacts[0].created.Unix()),
		},
		ResolvedDependencies: slices.Concat([]resourceDescriptor{source}, lists, modules),
	}
	doc.Predicate.RunDetails.Builder.ID = builderID
	if id := os.Getenv("BUILDER"); id != "" {
		doc.Predicate.RunDetails.Builder.ID = id
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return &file{provenanceFile, append(text, '\n')}, err
}

// listsOf returns the source's lists of modules.
func listsOf(root string) (lists []resourceDescriptor, err error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		lists = append(lists, resourceDescriptor{Name: name, Digest: sha256Of(text)})
	}
	return lists, nil
}

// modulesOf returns the modules that are linked into artifacts and programs, by the sums that Go has checked, and Go's
// release.
func modulesOf(artifacts []*artifact, programs []program) (
	modules []resourceDescriptor, release string, err error,
) {
	var infos []*debug.BuildInfo
	for _, a := range artifacts {
		info, err := buildInfo(a.module)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", a.name, err)
		}
		infos = append(infos, info)
	}
	for i := range programs {
		infos = append(infos, programs[i].info)
	}
	for _, info := range infos {
		release = infos[0].GoVersion
		for _, m := range linked(info) {
			d := resourceDescriptor{URI: purl(m.Path, m.Version)}
			if d.Digest, err = moduleDigest(m.Sum); err != nil {
				return nil, "", fmt.Errorf("%s: %w", m.Path, err)
			}
			if !slices.ContainsFunc(modules, func(o resourceDescriptor) bool { return o.URI == d.URI }) {
				modules = append(modules, d)
			}
		}
	}
	return modules, release, nil
}

// sha256Of is the checksum of a file as in-toto writes it.
func sha256Of(content []byte) map[string]string {
	return map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(content))}
}

// moduleDigest is the sum of go.sum as in-toto writes it: in hexadecimal. The standard library has none.
func moduleDigest(sum string) (map[string]string, error) {
	if sum == "" {
		return nil, nil
	}
	text, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return nil, fmt.Errorf("the sum %s is none of h1", sum)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	return map[string]string{"dirHash": hex.EncodeToString(raw)}, err
}
