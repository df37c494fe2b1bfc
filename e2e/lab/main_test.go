package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMainEnds runs a program whose run succeeds, and one whose run finds something wrong: this test once more.
func TestMainEnds(t *testing.T) {
	if found := os.Getenv("LAB_TEST_RUN"); found != "" {
		Main("name", 7, func(context.Context) (map[string]int, error) {
			if found == "fault" {
				return map[string]int{"violations": 1}, errors.New("a violation")
			}
			return map[string]int{"violations": 0}, nil
		})
		os.Exit(0)
	}
	for found, want := range map[string]string{
		"nothing": "seed 7\n{\"violations\":0}\n",
		"fault":   "seed 7\n{\"violations\":1}\nname: a violation\n",
	} {
		program := exec.Command(os.Args[0], "-test.run", "^TestMainEnds$")
		program.Env = append(os.Environ(), "LAB_TEST_RUN="+found)
		out, err := program.CombinedOutput()
		if (err != nil) != strings.Contains(want, "violation\n") || string(out) != want {
			t.Errorf("%s: %q, %v, want %q", found, out, err, want)
		}
	}
}
