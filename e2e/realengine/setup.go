package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// scripts are the Python side: the pinned packages, the model's maker and the server.
//
//go:embed engine
var scripts embed.FS

// environment is where the Python side has been laid out.
type environment struct {
	python, model, server string // paths
}

// prepare lays out the Python environment and makes the model, once for each version of the scripts.
func prepare(ctx context.Context, cache string) (environment, error) {
	version, err := scriptsVersion()
	if err != nil {
		return environment{}, err
	}
	root, err := filepath.Abs(filepath.Join(cache, version))
	if err != nil {
		return environment{}, err
	}
	env := environment{
		python: filepath.Join(root, "venv", "bin", "python"),
		model:  filepath.Join(root, "model.gguf"),
		server: filepath.Join(root, "engine", "server.py"),
	}
	ready := filepath.Join(root, "ready")
	if _, err := os.Stat(ready); err == nil {
		return env, nil
	}
	fmt.Println("setting up the engine in", root)
	// What an interrupted run has left is not worth trusting.
	if err := os.RemoveAll(root); err != nil {
		return env, err
	}
	if err := os.CopyFS(root, scripts); err != nil {
		return env, err
	}
	folder := filepath.Dir(env.server)
	for _, args := range [][]string{
		{"python3", "-m", "venv", filepath.Join(root, "venv")},
		{env.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", filepath.Join(folder, "requirements.txt")},
		{env.python, filepath.Join(folder, "model.py"), env.model},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return env, fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	return env, os.WriteFile(ready, nil, 0o644)
}

// scriptsVersion is a digest of all scripts.
func scriptsVersion() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(scripts, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := scripts.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}
