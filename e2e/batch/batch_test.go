package batch

import (
	"bufio"
	"fmt"
	"os"
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
func TestPoolSurvivesKills(t *testing.T) {
	l := newLab(t, 600*time.Millisecond)
	const tasks = 211
	l.addTasks(t, tasks)
	cmd := l.command(t, "pool.py", "--api", l.gateway.URL()+apiPath, "--tasks", l.path("tasks.db"),
		"--backends", l.path("backends.json"), "--lease-ttl", fmt.Sprint(ttl.Seconds()), "--processes", "3")
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
		t.Fatalf("the pool does not end; %d tasks are left", l.left(t))
	}
	ended := time.Now()
	if n := l.left(t); n != 0 {
		t.Errorf("%d tasks are left", n)
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

// Without Airflow the functions of the DAG do the same: they plan as many workers as are advised, and solve all tasks.
func TestDAG(t *testing.T) {
	l := newLab(t, 30*time.Millisecond)
	const workers = "import dag; print(dag.plan_workers(), dag.dag)"
	if got := l.run(t, workers); got != "[] None" {
		t.Errorf("without tasks: %s", got)
	}
	l.addTasks(t, 41)
	if got := l.run(t, workers); got != "[0, 1] None" { // 15 slots are free, 8 tasks for a worker
		t.Errorf("with tasks: %s", got)
	}
	if got := l.run(t, "import dag; print(dag.solve_tasks(0, 2))"); got != "0" {
		t.Errorf("%s tasks are left", got)
	}
	l.audit(t, 41, false)
}

// A claim that ran out is void: who had it neither renews it nor saves an answer.
func TestClaims(t *testing.T) {
	l := &lab{dir: t.TempDir(), python: venv(t), gateway: &harness.Gateway{}}
	got := l.run(t, `from os import environ
from tasks import Tasks
from time import sleep
t = Tasks(environ["BATCH_TASKS"])
t.add([("some words", 7)])
first = t.claim(0.2)
none = t.claim(60)
sleep(0.3)
second = t.claim(60)
print(none, t.renew(first, 60), t.solve(first, "late"), first.estimated_tokens, second.claim,
      t.renew(second, 60), t.solve(second, "done"), t.left(), t.claim(60))`)
	if want := "None False False 9 2 True True 0 None"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
