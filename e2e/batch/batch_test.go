package batch

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/quotasim"
)

// The pool solves all tasks although a third of its workers is killed, with tasks that models are busy with; what was
// counted for those is given back when their leases are over, and no model ever got a call too many.
func TestPoolSurvivesKills(t *testing.T) { survive(t, newLab(t, 600*time.Millisecond)) }

func survive(t *testing.T, l *lab) {
	const tasks = 211
	l.addTasks(t, tasks, 0)
	cmd := l.poolCommand(t, 3, 5)
	cmd.Stderr = os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout = write
	pool, err := child.Start(cmd)
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Kill(); err != nil {
			t.Error(err)
		}
	})
	workers := make(chan int, 64)
	go func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if pid, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "worker ")); err == nil {
				workers <- pid
			}
		}
	}()
	victim := <-workers
	harness.Await(t, func() error { return l.answered(20) })
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-pool.Done():
	case <-time.After(harness.Patience):
		t.Fatalf("the pool does not end: %+v", l.counts(t))
	}
	ended := time.Now()
	if c := l.counts(t); c != (counts{0, tasks, 0}) {
		t.Errorf("%+v", c)
	}
	harness.Await(t, func() error {
		n, err := l.inflight()
		if err == nil && n != 0 {
			err = fmt.Errorf("%d tasks are counted %v after the last one was solved", n, time.Since(ended))
		}
		return err
	})
	l.audit(t, tasks, true)
}

// poolCommand returns the command of a pool of so many workers that gives each task so many attempts.
func (l *lab) poolCommand(t *testing.T, workers, attempts int) *exec.Cmd {
	return l.command(t, "pool.py", "--api", l.gateway.URL()+apiPath, "--tasks", l.tasks,
		"--backends", l.path("backends.json"), "--lease-ttl", fmt.Sprint(ttl.Seconds()),
		"--processes", fmt.Sprint(workers), "--attempts", fmt.Sprint(attempts))
}

// pool runs one worker until all tasks have ended, and returns what it has told.
func (l *lab) pool(t *testing.T, attempts int) string {
	t.Helper()
	out, err := l.poolCommand(t, 1, attempts).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// answered returns an error until the models have answered, or are busy with, so many calls.
func (l *lab) answered(n int) error {
	sum := 0
	for _, m := range l.models {
		sum += len(m.Calls())
	}
	if sum < n {
		return fmt.Errorf("%d calls", sum)
	}
	return nil
}

// audit checks that each task was answered, that deaths have broken off calls, and that no slot was taken twice.
func (l *lab) audit(t *testing.T, tasks int, deaths bool) {
	t.Helper()
	answers, left := map[string]int{}, 0
	for _, m := range l.models {
		for _, c := range m.Calls() {
			switch {
			case c.Refused == quotasim.BySlots:
				t.Errorf("%s got a call of task %s beyond its %d slots", m.Name, c.Task, m.Slots)
			case c.Refused != "":
			case c.Left:
				left++
			default:
				answers[c.Task]++
			}
		}
	}
	if len(answers) != tasks {
		t.Errorf("%d of %d tasks were answered", len(answers), tasks)
	}
	if deaths && left == 0 {
		t.Error("no call was broken off: whoever was killed had none")
	}
}
