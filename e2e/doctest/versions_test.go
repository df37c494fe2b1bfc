package doctest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
)

// TestVersions compares the tables of versions with what is pinned: each release of Envoy and each server for counts
// has a row, and so have the control planes of e2e/mesh, and Helm. Each cell names a test or says that there is none.
func TestVersions(t *testing.T) {
	d := open(t, compatibility)
	var rows []string
	cell := regexp.MustCompile("not tested|`Test")
	for _, tab := range d.tables {
		if tab.marker != "versions" {
			continue
		}
		rows = append(rows, tab.column(0)...)
		for _, row := range tab.rows[1:] {
			for i, text := range row[1:] {
				if !cell.MatchString(text) {
					t.Errorf("%s: %s: %s: %q", compatibility, row[0], tab.rows[0][i+1], text)
				}
			}
		}
	}
	for _, want := range pinnedVersions(t) {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(row, want) }) {
			t.Errorf("%s: no row for %s in %q", compatibility, want, rows)
		}
	}
}

// pinnedVersions returns what tests run, as the tables call it.
func pinnedVersions(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "build", "envoy", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		list = append(list, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	for _, version := range redisserver.Versions() {
		name, number, _ := strings.Cut(version, "-")
		list = append(list, strings.ToUpper(name[:1])+name[1:]+" "+number)
	}
	gateway := regexp.MustCompile(`github.com/envoyproxy/gateway v(\S+)`).
		FindStringSubmatch(read(t, "e2e/mesh/envoygateway/go.mod"))
	istio := regexp.MustCompile(`istio.io/istio v0\.0\.0-(\d{4})(\d\d)(\d\d)`).
		FindStringSubmatch(read(t, "e2e/mesh/istio/go.mod"))
	if gateway == nil || istio == nil {
		t.Fatalf("%q, %q", gateway, istio)
	}
	for _, helm := range regexp.MustCompile(`helm.sh/helm/v\d v(\S+)`).
		FindAllStringSubmatch(read(t, "e2e/helm/go.mod"), -1) {
		list = append(list, "Helm "+helm[1])
	}
	return append(list, "Envoy Gateway "+gateway[1], strings.Join(istio[1:], "-"))
}
