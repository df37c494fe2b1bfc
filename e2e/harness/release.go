package harness

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FilesT returns the files of a folder, by name.
func FilesT(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// UntarT unpacks an archive, and returns the folder that it is in until the test ends.
func UntarT(t testing.TB, archive []byte) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.FromSlash(header.Name))
		mode := header.FileInfo().Mode().Perm()
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// VerifiedT checks a signature as cosign does: in base64, of the content's SHA-256.
func VerifiedT(t testing.TB, name string, public *ecdsa.PublicKey, content []byte, signature string) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(signature)
	sum := sha256.Sum256(content)
	if err != nil || !ecdsa.VerifyASN1(public, sum[:], raw) {
		t.Errorf("%s has the signature %q: %v", name, signature, err)
	}
}
