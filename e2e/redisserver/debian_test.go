package redisserver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeApt stands in for apt-get. It has the versions that HAVE lists, and lists of packages of its own only after an
// update.
const fakeApt = `#!/bin/sh
echo "$@" >>"$LOG"
case "$*" in
*Dir::State::lists*" update") exit 100 ;; # one of many sources cannot be reached
*Dir::State::lists*) have=$HAVE_UPDATED ;;
*) have=$HAVE ;;
esac
for package in "$@"; do
	case "$package" in
	redis*=*) version=${package#*=} ;;
	redis*) version=$have ;;
	*) continue ;;
	esac
	[ "$version" = "$have" ] || exit 100
	[ -n "$have" ] || exit 100
	printf %s "package $version" >"${package%=*}_$(echo "$version" | sed s/:/%3a/)_amd64.deb"
done
`

// fakeDpkg stands in for dpkg-deb: it "unpacks" a package into a server that prints its version.
const fakeDpkg = `#!/bin/sh
mkdir -p "$3/usr/bin" "$3/usr/lib/x86_64-linux-gnu"
printf '#!/bin/sh\necho "$SERVER libraries=$LD_LIBRARY_PATH"\n' >"$3/usr/bin/redis-server"
chmod +x "$3/usr/bin/redis-server"
`

// tools writes executables into a folder and makes it the first of the PATH.
func tools(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// oldServer stands in for a Redis server of another series.
const oldServer = "#!/bin/sh\necho Redis server v=6.0.16\n"

func TestDebian(t *testing.T) {
	const (
		pinnedVersion = "5:7.0.15-1"
		laterVersion  = "5:7.0.15-2"
		server        = "Redis server v=7.0.15 sha=00000000"
	)
	good := fmt.Sprintf("%x", sha256.Sum256([]byte("package "+pinnedVersion)))
	for _, c := range []struct {
		name, have, updated, hash, server string
		want                              string // part of the error, or "" for none
		unavailable                       bool
		calls                             int // of apt-get
	}{
		{"pinned version", pinnedVersion, "", good, server, "", false, 1},
		{"pinned version, other content", pinnedVersion, "", strings.Repeat("0", 64), server, "another hash", false, 1},
		{"pinned version after an update", "", pinnedVersion, good, server, "", false, 3},
		{"security update", laterVersion, laterVersion, good, server, "", false, 4},
		{"other series", laterVersion, laterVersion, good, "Redis server v=8.0.0", "not of the 7.0 series", false, 4},
		{"no source", "", "", good, server, "no source of Debian packages", true, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			tools(t, map[string]string{"apt-get": fakeApt, "dpkg-deb": fakeDpkg, "redis-server": oldServer})
			log := filepath.Join(t.TempDir(), "log")
			t.Setenv("HAVE", c.have)
			t.Setenv("HAVE_UPDATED", c.updated)
			t.Setenv("LOG", log)
			t.Setenv("SERVER", c.server)
			folder := t.TempDir()
			pins := filepath.Join(folder, "pins.txt")
			line := fmt.Sprintf("redis-server %s amd64 %s\n", pinnedVersion, c.hash)
			if err := os.WriteFile(pins, []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := debian(t.Context(), pins, filepath.Join(folder, "cache"))
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				libraries := "LD_LIBRARY_PATH=" + filepath.Join(folder, "cache/files/usr/lib/x86_64-linux-gnu")
				if !slices.Equal(got.env, []string{libraries}) {
					t.Errorf("environment %q, want %q", got.env, libraries)
				}
			case err == nil || !strings.Contains(err.Error(), c.want):
				t.Errorf("error %v, want %s", err, c.want)
			}
			if errors.Is(err, ErrUnavailable) != c.unavailable {
				t.Errorf("unavailable: %v", err)
			}
			text, err := os.ReadFile(log)
			if n := strings.Count(string(text), "\n"); err != nil || n != c.calls {
				t.Errorf("apt-get was called %d times, want %d: %v\n%s", n, c.calls, err, text)
			}
			for _, left := range []string{"packages", "lists", "files.part"} {
				if _, err := os.Stat(filepath.Join(folder, "cache", left)); err == nil && c.want == "" {
					t.Errorf("left %s", left)
				}
			}
		})
	}
}

// TestDebianPath takes a server of the right series from the PATH, and returns ErrUnavailable when there is neither
// that nor Debian's tools.
func TestDebianPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	pins := filepath.Join(dir, "pins.txt")
	if err := os.WriteFile(pins, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := debian(t.Context(), pins, filepath.Join(dir, "cache")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without Debian's tools: %v", err)
	}
	own := filepath.Join(dir, "redis-server")
	if err := os.WriteFile(own, []byte("#!/bin/sh\necho Redis server v=7.0.4\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := debian(t.Context(), pins, filepath.Join(dir, "cache")); err != nil || got.path != own {
		t.Errorf("with a server on the PATH: %+v, %v", got, err)
	}
}

func TestReadPins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pins.txt")
	for _, c := range []struct {
		text string
		want []pin
		ok   bool
	}{
		{
			"# remark\n\n a 1 amd64 h # why\nb\t2  arm64 i",
			[]pin{{"a", "1", "amd64", "h"}, {"b", "2", "arm64", "i"}},
			true,
		},
		{"", nil, true},
		{"a 1 amd64", nil, false},
		{"a 1 amd64 h more", nil, false},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readPins(file); (err == nil) != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
	if _, err := readPins(file + "-gone"); err == nil {
		t.Error("a missing file is no error")
	}
}
