package gpu

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
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
	SHAPES      map[string][6]int
	SPECIAL     []string
	LETTERS     string
	CONTEXT     int
	ENVIRONMENT map[string]string
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

// TestServer holds that the server resets its cache when it is asked to, and loads nothing.
func TestServer(t *testing.T) {
	of := read(t, "cuda_server.py").ENVIRONMENT
	for _, name := range []string{"VLLM_SERVER_DEV_MODE", "HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS"} {
		if of[name] != "1" {
			t.Errorf("%s is %q", name, of[name])
		}
	}
}
