package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/realengine/engine"
)

// constants prints the constants of a Python program, which is not run: it needs packages that are not there.
const constants = `import ast, json, sys
out = {}
for node in ast.parse(sys.stdin.read()).body:
    if isinstance(node, ast.Assign):
        try:
            out[node.targets[0].id] = ast.literal_eval(node.value)
        except ValueError:
            pass
print(json.dumps(out))`

// read returns the constants of one of the scripts.
func read(t *testing.T, name string) (c struct {
	SHAPES  map[string][6]int
	SPECIAL []string
	LETTERS string
	CONTEXT int
},
) {
	t.Helper()
	text, err := engine.Scripts.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", constants)
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &c)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// TestModel compares what makes the model with what is known of it here.
func TestModel(t *testing.T) {
	c := read(t, "cuda_model.py")
	if len(c.SHAPES) != len(shapes) || c.CONTEXT < modelLength || len(c.SPECIAL) != 3 {
		t.Errorf("%+v", c)
	}
	for name, dimensions := range c.SHAPES {
		layers, heads, size := dimensions[2], dimensions[4], dimensions[5]
		if want := 2 * 2 * layers * heads * size; shapes[name].tokenBytes != want { // keys and values of two bytes
			t.Errorf("%s: %d bytes a token, want %d", name, shapes[name].tokenBytes, want)
		}
	}
	for _, word := range strings.Fields(loadgen.Text(rand.New(rand.NewPCG(1, 2)), 2000)) {
		if len(word) != 3 || strings.Trim(word, c.LETTERS) != "" {
			t.Fatalf("%q is no word of %s", word, c.LETTERS)
		}
	}
}

// TestServer holds that the server resets its cache when it is asked to, loads nothing and stays on this machine,
// whatever the environment says. A module that prints its environment has the place of vLLM.
func TestServer(t *testing.T) {
	scripts, modules := t.TempDir(), t.TempDir()
	openai := filepath.Join(modules, "vllm", "entrypoints", "openai")
	err := errors.Join(os.CopyFS(scripts, engine.Scripts), os.MkdirAll(openai, 0o755),
		os.WriteFile(filepath.Join(openai, "api_server.py"),
			[]byte("import json, os, sys; print(json.dumps(dict(os.environ, ARGS=' '.join(sys.argv[1:]))))"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", filepath.Join(scripts, "cuda_server.py"), "--port", "1")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+modules, "VLLM_SERVER_DEV_MODE=0", "HF_HUB_OFFLINE=0",
		"VLLM_HOST_IP=192.0.2.1", "OMP_NUM_THREADS=7", "CUDA_VISIBLE_DEVICES=GPU-0a")
	out, err := cmd.CombinedOutput()
	var of map[string]string
	if err == nil {
		err = json.Unmarshal(out, &of)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{
		"VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": "127.0.0.1",
		"OMP_NUM_THREADS": "7", "VLLM_USE_FLASHINFER_SAMPLER": "0", "CUDA_VISIBLE_DEVICES": "GPU-0a",
		"ARGS": "--port 1",
	} {
		if of[name] != want {
			t.Errorf("%s is %q, want %q", name, of[name], want)
		}
	}
}
