package batch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pyenv"
)

// pythons are the names of the Pythons that both versions of Airflow and the pinned packages are for.
var pythons = []string{"python3.11", "python3.12", "python3.10"}

// needAirflow skips a test that `make e2e-airflow` runs: its packages are 200 MB for each version.
func needAirflow(t *testing.T) (versions []string) {
	t.Helper()
	if versions = strings.Fields(os.Getenv("AIRFLOW")); len(versions) == 0 {
		t.Skip("AIRFLOW names no versions: make e2e-airflow runs this")
	}
	return versions
}

// airflow is an installation of a version, with the folder of the example in its folder of DAGs.
type airflow struct {
	*lab
	home string
	env  []string
}

// installAirflow makes one that keeps its own state, and finds the tasks, in SQLite, or in PostgreSQL.
func installAirflow(t *testing.T, l *lab, version string, server *postgresql) *airflow {
	t.Helper()
	a := &airflow{lab: l, home: t.TempDir()}
	l.python = pyenv.T(t, "e2e/batch/airflow/requirements-"+version+".txt", pythons...)
	a.env = []string{
		"AIRFLOW_HOME=" + a.home, "AIRFLOW__CORE__LOAD_EXAMPLES=False",
		"AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False", "BATCH_ATTEMPTS=3",
	}
	if server != nil {
		name := "airflow_" + strings.ReplaceAll(version, ".", "_")
		server.create(t, name)
		server.create(t, "tasks_"+name)
		l.tasks = server.url("tasks_" + name)
		connection := strings.Replace(server.url(name), "postgresql:", "postgresql+psycopg2:", 1)
		a.env = append(a.env, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="+connection)
	}
	example := os.DirFS(harness.PathT(t, "examples/batch"))
	if err := os.CopyFS(filepath.Join(a.home, "dags/warmgate"), example); err != nil {
		t.Fatal(err)
	}
	if out, err := a.command(t, "db", "migrate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(a.home, "airflow.db")); (err == nil) != (server == nil) {
		t.Errorf("its own state is not where it should be: %v", err)
	}
	return a
}

// command returns a command of Airflow.
func (a *airflow) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := a.lab.command(t, append([]string{"-m", "airflow"}, args...)...)
	cmd.Dir, cmd.Env = a.home, append(cmd.Env, a.env...)
	return cmd
}

// succeeded is how both versions tell that a run of a DAG has.
var succeeded = regexp.MustCompile(`DagRun Finished: dag_id=warmgate_batch, .*state=success`)

// test runs the DAG and returns what it has told.
func (a *airflow) test(t *testing.T) string {
	t.Helper()
	out, err := a.command(t, "dags", "test", "warmgate_batch").CombinedOutput()
	if err != nil || !succeeded.Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// die runs the DAG and kills it, with all that it has started, once the models have got so many calls.
func (a *airflow) die(t *testing.T, calls int) {
	t.Helper()
	cmd := a.command(t, "dags", "test", "warmgate_batch")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := child.StartApart(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	harness.Await(t, func() error {
		if p.Ended() != nil {
			t.Fatalf("it ended before it was killed:\n%s", &out)
		}
		return a.answered(calls)
	})
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}

// The DAG loads and runs in a real Airflow. Bad tasks fail after their attempts, and all others are solved although a
// run is killed in the midst of its calls.
func TestAirflow(t *testing.T) {
	versions := needAirflow(t)
	server := startPostgreSQL(t)
	for _, version := range versions {
		t.Run(version+"/SQLite", func(t *testing.T) { testAirflow(t, version, nil, "single") })
		t.Run(version+"/PostgreSQL", func(t *testing.T) { testAirflow(t, version, server, "batch") })
	}
}

// A scheduler runs the mapped workers at the same time. One is killed, and all tasks are solved.
func TestAirflowScheduler(t *testing.T) {
	versions := needAirflow(t)
	server := startPostgreSQL(t)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { testScheduler(t, version, server) })
	}
}

func testScheduler(t *testing.T, version string, server *postgresql) {
	l := newLab(t, 600*time.Millisecond)
	a := installAirflow(t, l, version, server)
	const tasks = 157
	l.addTasks(t, tasks, 0)
	a.schedule(t, version)
	harness.Await(t, func() error { return l.answered(20) })
	workers := a.workers(t)
	harness.Await(t, func() error {
		if workers = a.workers(t); len(workers) < 2 {
			return fmt.Errorf("%d workers", len(workers))
		}
		return nil
	})
	if err := syscall.Kill(workers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, func() error {
		if c := l.counts(t); c != (counts{0, tasks, 0}) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	l.audit(t, tasks, true)
}

// schedule starts what runs DAGs when they are due, until the test ends.
func (a *airflow) schedule(t *testing.T, version string) {
	t.Helper()
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	a.env = append(a.env, "AIRFLOW__CORE__EXECUTOR=LocalExecutor", "AIRFLOW__CORE__PARALLELISM=4",
		"AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION=False", "AIRFLOW__API_AUTH__JWT_SECRET="+strings.Repeat(token, 3),
		fmt.Sprintf("AIRFLOW__CORE__EXECUTION_API_SERVER_URL=http://127.0.0.1:%d/execution/", port))
	programs := [][]string{{"scheduler", "--skip-serve-logs"}}
	if version[0] != '2' {
		programs = append(programs, []string{"dag-processor"},
			[]string{"api-server", "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--workers", "1"})
	}
	for _, args := range programs {
		log, err := os.Create(filepath.Join(a.home, args[0]+".log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := a.command(t, args...)
		cmd.Stdout, cmd.Stderr = log, log
		p, err := child.StartApart(cmd)
		log.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// With all that it has started.
			if err := errors.Join(syscall.Kill(-p.PID(), syscall.SIGKILL), p.Kill()); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(log.Name()); t.Failed() {
				t.Logf("%s: %v\n%s", args[0], err, text[max(0, len(text)-4000):])
			}
		})
	}
}

var workerLine = regexp.MustCompile(`worker \d+ of \d+, process (\d+)`)

// workers returns the processes of the workers, by their logs.
func (a *airflow) workers(t *testing.T) (pids []int) {
	t.Helper()
	if err := filepath.WalkDir(filepath.Join(a.home, "logs"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range workerLine.FindAllSubmatch(text, -1) {
			pid, err := strconv.Atoi(string(m[1]))
			if err != nil {
				return err
			}
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return pids
}

func testAirflow(t *testing.T, version string, server *postgresql, by string) {
	l := newLab(t, 600*time.Millisecond)
	l.write(t, "backends.json", map[string]any{"service": map[string]string{by: l.serve(t) + "/" + by}})
	a := installAirflow(t, l, version, server)
	if told := a.test(t); !strings.Contains(told, "map has 0 values to expand") {
		t.Errorf("without tasks:\n%s", told)
	}
	const tasks, poisonous = 47, 3
	l.addTasks(t, tasks, poisonous)
	a.die(t, 15)
	if c := l.counts(t); c.Unsolved == 0 {
		t.Errorf("all was over when it was killed: %+v", c)
	}
	told := a.test(t)
	if want := fmt.Sprintf("[##############################] %d of %d solved, %d failed", tasks, tasks+poisonous,
		poisonous); !strings.Contains(told, want) {
		t.Errorf("%s is not in\n%s", want, told)
	}
	if c := l.counts(t); c != (counts{0, tasks, poisonous}) {
		t.Errorf("%+v", c)
	}
	if n := l.poisoned.Load(); n < poisonous || n > 3*poisonous {
		t.Errorf("%d calls of %d bad tasks with 3 attempts", n, poisonous)
	}
	if n, err := l.inflight(); n != 0 || err != nil {
		t.Errorf("%d tasks are counted: %v", n, err)
	}
	l.audit(t, tasks, true)
}

// TestPostgreSQL has the tests of the tasks run there, and then a pool whose workers are killed.
func TestPostgreSQL(t *testing.T) {
	needAirflow(t)
	server := startPostgreSQL(t, "parts", "tasks")
	l := newLab(t, 600*time.Millisecond)
	l.python, l.tasks = pyenv.T(t, "examples/batch/requirements-postgresql.txt", pyenv.Any...), server.url("tasks")
	parts := l.command(t, harness.PathT(t, "e2e/batchparts/testdata/test_tasks.py"), "-v", "PostgreSQL")
	parts.Env = append(parts.Env, "POSTGRESQL="+server.url("parts"), "PYTHONPATH="+parts.Dir)
	out, err := parts.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("skipped")) || !bytes.Contains(out, []byte("test_connection_lost")) {
		t.Errorf("%v\n%s", err, out)
	}
	survive(t, l)
}
