// Package sdkpatches tests the patches in this folder with the version of the SDK that go.mod pins.
package sdkpatches

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// patches are all of them, in order, each with what it mends and the test in it that shows that.
var patches = []struct{ file, mends, test string }{
	{"1-end-of-streams.patch", "the end of a stream is told over HTTP/3, too", "Test_streamEndsOnce"},
	{"2-calls-out.patch", "an answer is not lost with the request of the call", "TestSetEffectiveContext"},
	{"3-memory.patch", "memory for what host calls return is used again", "Test_memoryAllocate"},
	{"4-unknown-contexts.patch", "a callback for an unknown context does not end the VM", "Test_unknownContext"},
}

// Each patch applies alone. Its test passes with it, and not without.
func TestEachPatch(t *testing.T) {
	for _, p := range patches {
		t.Run(p.mends, func(t *testing.T) {
			t.Parallel()
			sdk := source(t)
			apply(t, sdk, p.file, "--include=*_test.go")
			if err := sdkTests(sdk, "-run=^"+p.test+"$"); err == nil {
				t.Errorf("%s passes without the patch", p.test)
			}
			apply(t, sdk, p.file, "--exclude=*_test.go")
			if err := sdkTests(sdk, "-run=^"+p.test+"$"); err != nil {
				t.Error(err)
			}
		})
	}
}

// All of them apply in order, and the SDK's own tests pass.
func TestAllPatches(t *testing.T) {
	sdk := source(t)
	var files []string
	for _, p := range patches {
		apply(t, sdk, p.file)
		files = append(files, p.file)
	}
	if err := sdkTests(sdk); err != nil {
		t.Error(err)
	}
	if all, _ := filepath.Glob("*.patch"); !slices.Equal(all, files) {
		t.Errorf("patches %q, tested are %q", all, files)
	}
}

// source returns a copy of the SDK's source.
func source(t *testing.T) (dir string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f={{.Dir}}", "github.com/higress-group/proxy-wasm-go-sdk").Output()
	if err != nil {
		t.Fatal(err)
	}
	from := strings.TrimSpace(string(out))
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// apply applies a patch, or a part of it.
func apply(t *testing.T, dir, file string, part ...string) {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", append(append([]string{"apply"}, part...), path)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // it may be inside of a repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, out)
	}
}

// failure is the output of tests that have failed.
type failure string

func (f failure) Error() string { return "the SDK's tests fail:\n" + string(f) }

// sdkTests runs tests of the SDK's source.
func sdkTests(dir string, which ...string) error {
	args := slices.Concat([]string{"test"}, which, []string{"./proxywasm", "./proxywasm/internal"})
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return failure(out)
	}
	return nil
}
