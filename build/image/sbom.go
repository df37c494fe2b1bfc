package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// What every document says of the project.
const (
	license   = "Apache-2.0"
	sourceURL = "https://github.com/warmgate/warmgate"
)

// licenses are those of the modules that may be linked, by path, as their LICENSE files have them. One that is not
// listed is refused, so that no release is made before somebody has looked.
var licenses = map[string]string{
	"stdlib":                                     "BSD-3-Clause",
	"github.com/cespare/xxhash/v2":               "MIT",
	"github.com/dchest/siphash":                  "CC0-1.0",
	"github.com/higress-group/proxy-wasm-go-sdk": "Apache-2.0",
	"golang.org/x/crypto":                        "BSD-3-Clause",

	// Of the program warmgate alone.
	"charm.land/bubbletea/v2":                  "MIT",
	"github.com/charmbracelet/colorprofile":    "MIT",
	"github.com/charmbracelet/ultraviolet":     "MIT",
	"github.com/charmbracelet/x/ansi":          "MIT",
	"github.com/charmbracelet/x/term":          "MIT",
	"github.com/charmbracelet/x/termios":       "MIT",
	"github.com/charmbracelet/x/windows":       "MIT",
	"github.com/clipperhouse/displaywidth":     "MIT",
	"github.com/clipperhouse/stringish":        "MIT",
	"github.com/clipperhouse/uax29/v2":         "MIT",
	"github.com/lucasb-eyer/go-colorful":       "MIT",
	"github.com/mattn/go-runewidth":            "MIT",
	"github.com/muesli/cancelreader":           "MIT",
	"github.com/rivo/uniseg":                   "MIT",
	"github.com/xo/terminfo":                   "MIT",
	"github.com/cpuguy83/go-md2man/v2":         "MIT",
	"github.com/russross/blackfriday/v2":       "BSD-2-Clause",
	"github.com/santhosh-tekuri/jsonschema/v6": "Apache-2.0",
	"github.com/spf13/cobra":                   "Apache-2.0",
	"github.com/spf13/pflag":                   "BSD-3-Clause",
	"github.com/tidwall/gjson":                 "MIT",
	"github.com/tidwall/match":                 "MIT",
	"github.com/tidwall/pretty":                "MIT",
	"go.yaml.in/yaml/v3":                       "MIT AND Apache-2.0",
	"golang.org/x/sync":                        "BSD-3-Clause",
	"golang.org/x/sys":                         "BSD-3-Clause",
	"golang.org/x/text":                        "BSD-3-Clause",
}

// The part of SPDX 2.3 that an SBOM here has; see https://spdx.github.io/spdx-spec/v2.3.
type (
	spdxDocument struct {
		SPDXVersion       string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		SPDXID            string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreation       `json:"creationInfo"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string         `json:"SPDXID"`
		Name             string         `json:"name"`
		VersionInfo      string         `json:"versionInfo"`
		PackageFileName  string         `json:"packageFileName,omitempty"`
		DownloadLocation string         `json:"downloadLocation"`
		FilesAnalyzed    bool           `json:"filesAnalyzed"`
		Checksums        []spdxChecksum `json:"checksums,omitempty"`
		SourceInfo       string         `json:"sourceInfo,omitempty"`
		LicenseConcluded string         `json:"licenseConcluded"`
		LicenseDeclared  string         `json:"licenseDeclared"`
		CopyrightText    string         `json:"copyrightText"`
		ExternalRefs     []spdxRef      `json:"externalRefs"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// unknown is what SPDX has for a field that nobody has looked into.
const unknown = "NOASSERTION"

// billFile is the name of the artifact's SBOM as a file.
func (a *artifact) billFile() string { return a.name + ".spdx.json" }

// sbom returns what is in the artifact, in SPDX 2.3 as JSON: the plugin, Go's standard library and the modules that the
// Go toolchain has noted in the artifact itself.
func (a *artifact) sbom() ([]byte, error) {
	info, err := buildInfo(a.module)
	if err != nil {
		return nil, fmt.Errorf("image: %s: %w", a.name, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(a.module))
	plugin := spdxOf("SPDXRef-artifact", info.Main.Path, "v"+a.version, license)
	plugin.Name, plugin.VersionInfo, plugin.PackageFileName = a.name, a.version, a.name+".wasm"
	plugin.DownloadLocation = "git+" + sourceURL
	plugin.Checksums = []spdxChecksum{{"SHA256", sum}}
	doc := spdxDocument{
		SPDXVersion:       "SPDX-2.3",
		DataLicense:       "CC0-1.0",
		SPDXID:            "SPDXRef-DOCUMENT",
		Name:              a.name + "-" + a.version,
		DocumentNamespace: sourceURL + "/spdx/" + a.name + "-" + a.version + "-" + sum,
		CreationInfo: spdxCreation{
			Created:  a.created.Format(time.RFC3339),
			Creators: []string{"Organization: Warmgate", "Tool: warmgate-build-image"},
		},
		Packages:      []spdxPackage{plugin},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", plugin.SPDXID}},
	}
	for i, m := range linked(info) {
		terms, ok := licenses[m.Path]
		if !ok {
			return nil, fmt.Errorf("image: %s: no license is known of %s", a.name, m.Path)
		}
		p := spdxOf(fmt.Sprintf("SPDXRef-module-%d", i+1), m.Path, m.Version, terms)
		if m.Sum != "" {
			p.SourceInfo = "go.sum " + m.Sum
		}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{plugin.SPDXID, "STATIC_LINK", p.SPDXID})
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

// spdxOf describes a Go module.
func spdxOf(id, path, version, terms string) spdxPackage {
	return spdxPackage{
		SPDXID: id, Name: path, VersionInfo: version, DownloadLocation: unknown,
		LicenseConcluded: unknown, LicenseDeclared: terms, CopyrightText: unknown,
		ExternalRefs: []spdxRef{{
			"PACKAGE-MANAGER", "purl", purl(path, version),
		}},
	}
}

// purl is the address of a Go module, see https://github.com/package-url/purl-spec.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
