package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         string // in the error of Ended
	}{
		{"without a signal", "exit 3", "exit status 3"},
		{"killed", `trap "" TERM; while :; do sleep 0.05; done`, "signal: killed"},
		{"killed while stopped", "kill -STOP $$; sleep 60", "signal: killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Start(exec.Command("sh", "-c", c.script))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.want, "killed") {
				if err := p.Ended(); err != nil {
					t.Errorf("it runs, but %v", err)
				}
				if err := p.Kill(); err != nil {
					t.Error(err)
				}
			}
			<-p.Done()
			if err := p.Ended(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ended with %v, want %s", err, c.want)
			}
			if err := p.Kill(); err != nil { // again
				t.Error(err)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(exec.Command("/no/such/file")); err == nil {
		t.Error("a file that does not exist was started")
	}
}

// TestDiesWithParent kills a program that has started a child and looks for the child.
func TestDiesWithParent(t *testing.T) {
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		p, err := Start(exec.Command("sleep", "3600"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("child %d\n", p.PID())
		<-p.Done()
		return
	}
	parent := exec.Command(os.Args[0], "-test.run", "^TestDiesWithParent$")
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	for lines := bufio.NewScanner(out); child == 0 && lines.Scan(); {
		fmt.Sscanf(lines.Text(), "child %d", &child)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil || child == 0 {
		t.Fatalf("the parent was not killed (child %d)", child)
	}
	for deadline := time.Now().Add(5 * time.Minute); alive(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("child %d outlives its parent", child)
		}
	}
}

// alive reports whether a process runs. A zombie, which remains where no parent waits for it, does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}
