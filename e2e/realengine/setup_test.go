package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
	scripts "github.com/warmgate/warmgate/e2e/realengine/engine"
)

// TestServersDieTogether checks that what a vLLM server has started is gone soon after the server was killed.
func TestServersDieTogether(t *testing.T) {
	const script = `
import subprocess, time, vllm_server
vllm_server.die_together()
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)`
	parent := exec.Command("python3", "-c", script)
	parent.Dir, parent.Stderr = "engine", os.Stderr
	parent.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait() // it was killed
	var child int
	if _, scanErr := fmt.Sscan(line, &child); err != nil || scanErr != nil {
		t.Fatalf("the server printed %q, %v", line, err)
	}
	if err := lab.Try(func() {
		lab.Within(t.Context(), time.Minute, func() {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
			lab.FailIf(!os.IsNotExist(err) && !strings.Contains(string(stat), " Z "), "the child lives: %s", stat)
		})
	}); err != nil {
		t.Error(err)
	}
}

// TestInstall checks that nothing is installed that is not pinned.
func TestInstall(t *testing.T) {
	for _, uv := range []bool{false, true} {
		steps := install("python", "list", uv)
		if last := steps[len(steps)-1]; !slices.Contains(last, "list") {
			t.Errorf("uv %v: the requirements are not installed: %v", uv, steps)
		}
		for _, step := range steps {
			if !slices.Contains(step, "--no-deps") {
				t.Errorf("uv %v: %v installs what it likes", uv, step)
			}
		}
	}
	for _, e := range engines {
		text, err := scripts.Scripts.ReadFile(e.files + "_requirements.txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && strings.Count(line, "==") != 1 {
				t.Errorf("%s: %q is not pinned", e.name, line)
			}
		}
	}
}
