package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
	scripts "github.com/warmgate/warmgate/e2e/realengine/engine"
)

// uvVersion is the installer of the larger engines. It fetches in parallel and keeps what it has fetched.
const uvVersion = "uv==0.13.9"

// environment is where an engine's Python side has been laid out.
type environment struct {
	python, model, server string // paths
}

// prepare lays out the Python environment of an engine and makes its model, once for each version of its scripts.
func prepare(ctx context.Context, e engine, cache string) environment {
	began := time.Now()
	root := lab.Must(filepath.Abs(filepath.Join(cache, lab.Must(scriptsVersion(e)))))
	env := environment{
		python: filepath.Join(root, "venv", "bin", "python"),
		model:  filepath.Join(root, e.model),
		server: filepath.Join(root, "engine", e.files+"_server.py"),
	}
	ready := filepath.Join(root, "ready")
	if _, err := os.Stat(ready); err == nil {
		return env
	}
	fmt.Println("setting up", e.name, "in", root)
	env.layOut(ctx, e, root)
	fmt.Printf("%s set up in %.0f s\n", e.name, time.Since(began).Seconds())
	lab.Check(os.WriteFile(ready, nil, 0o644))
	return env
}

// layOut makes the environment and the model in the folder root.
func (env environment) layOut(ctx context.Context, e engine, root string) {
	// What an interrupted run has left is not worth trusting.
	lab.Check(os.RemoveAll(root))
	lab.Check(os.CopyFS(filepath.Join(root, "engine"), scripts.Scripts))
	file := func(kind string) string { return filepath.Join(root, "engine", e.files+kind) }
	steps := append([][]string{{"python3", "-m", "venv", filepath.Join(root, "venv")}},
		install(env.python, file("_requirements.txt"), e.uv)...)
	steps = append(steps, []string{env.python, file("_model.py"), env.model})
	for _, args := range steps {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		// Hard links from here into the environment take no room, those from another file system would be copies.
		cmd.Env = append(os.Environ(), "UV_CACHE_DIR="+filepath.Join(filepath.Dir(root), "uv"))
		out, err := cmd.CombinedOutput()
		lab.FailIf(err != nil, "%v: %w\n%s", args, err, out)
	}
}

// install returns the commands that install the packages of a requirements file, and no others.
func install(python, requirements string, uv bool) [][]string {
	pip := []string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"}
	if !uv {
		return [][]string{append(pip, "-r", requirements)}
	}
	return [][]string{
		append(pip, uvVersion),
		{python, "-m", "uv", "pip", "install", "--quiet", "--python", python, "--no-deps", "-r", requirements},
	}
}

// scriptsVersion is a digest of all scripts of an engine.
func scriptsVersion(e engine) (string, error) {
	sum := sha256.New()
	for _, file := range []string{
		"vocabulary.py", e.files + "_model.py", e.files + "_server.py",
		e.files + "_requirements.txt",
	} {
		text, err := scripts.Scripts.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}
