package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
)

// Options configure a server. The zero value is the default version without persistence.
type Options struct {
	Version string   // one of Versions; "" means Default, or the binary that the environment variable REDIS names
	Config  []string // lines of redis.conf, such as "maxmemory 1mb", added to the package's own: a later line wins
	Dir     string   // folder of dump and append-only files, kept by Stop; "" means a temporary one
}

// Server is one server process. Its methods may be called from several goroutines.
type Server struct {
	options Options
	program program
	dir     string // configuration, log and socket
	port    int

	mu      sync.Mutex
	process *child.Process
	stopped bool

	idle idleConns
}

const (
	startTimeout = harness.Patience // until a server answers; it takes 30 ms on a machine that is not busy
	startStep    = 5 * time.Millisecond
	startTries   = 5 // with a port that another process took first
)

// tester is a user of its own with all rights, so that a test can change the default user's password and rights without
// locking itself out. Any password does.
const tester = "warmgate-tester"

// Start runs a server. It returns when the server answers, even with LOADING. The server runs until Stop, until ctx
// ends or until this program ends, whichever comes first. The error wraps ErrUnavailable when this machine has no way
// to get the version.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o)
}

// start runs a server on a port p for which p plus each offset is free too.
func start(ctx context.Context, o Options, offsets ...int) (*Server, error) {
	program, err := find(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "warmgate-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, program: program, dir: dir}
	for range startTries {
		if s.port, err = freeport.Get(offsets...); err != nil {
			break
		}
		if err = errors.Join(s.configure(), s.run(ctx)); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	context.AfterFunc(ctx, func() { s.Stop() })
	return s, nil
}

// configure writes redis.conf.
func (s *Server) configure() error {
	data := s.options.Dir
	if data == "" {
		data = s.dir
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	lines := append([]string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(s.port),
		"unixsocket " + s.Socket(),
		"unixsocketperm 700",
		"dir " + strconv.Quote(data),
		`save ""`,
		"appendonly no",
		"repl-diskless-sync-delay 0", // not the five seconds in which more replicas may come
		"user " + tester + " on nopass ~* &* +@all",
	}, s.options.Config...)
	return os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

var errPortTaken = errors.New("redisserver: another process listens on the port")

// run starts the process and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("redisserver: the server was stopped")
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before := len(s.Logs())
	cmd := exec.Command(s.program.path, filepath.Join(s.dir, "redis.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.program.env...)
	if s.process, err = child.Start(cmd); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	return s.awaitAnswer(ctx, before)
}

// awaitAnswer waits until the process answers; the first bytes of its log, so many, are of earlier ones.
func (s *Server) awaitAnswer(ctx context.Context, before int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if s.answers() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redisserver: the server does not answer: %w\n%s", ctx.Err(), s.Logs())
		case <-s.process.Done():
			text := s.Logs()[before:]
			if strings.Contains(text, "in use") {
				return errPortTaken
			}
			return fmt.Errorf("redisserver: %w\n%s", s.process.Ended(), text)
		case <-time.After(startStep):
		}
	}
}

// answers reports whether the server takes commands, or refuses them with LOADING. It connects to the socket, which no
// other process can own.
func (s *Server) answers() bool {
	c, err := dial("unix", s.Socket())
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Do("PING")
	var refused ReplyError
	return err == nil || errors.As(err, &refused)
}

// Addr returns ip:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the TCP port.
func (s *Server) Port() int { return s.port }

// Socket returns the path of the server's unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// PID returns the process id. It changes with Restart.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.PID()
}

// Logs returns what the server has logged so far, over all restarts.
func (s *Server) Logs() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Kill ends the process at once, as a crash does: what is not on disk is lost. It returns when the process is gone and
// connections to the port are refused.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end()
}

// end does what Kill does, with mu held.
func (s *Server) end() error {
	defer s.idle.drain()
	if s.process == nil {
		return nil
	}
	return s.process.Kill()
}

// Freeze stops the process in its current state: connections stay open, new ones are accepted by the kernel, nothing is
// answered.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw continues a frozen process. It then executes what was sent to it while it was frozen.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Signal(signal)
}

// Restart kills the process if it still runs and starts it again on the same port, with what it has on disk. It returns
// when the server answers, even with LOADING.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.run(ctx)
}

// Stop kills the process and deletes what Start has created. Calling it again does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return errors.Join(s.end(), os.RemoveAll(s.dir))
}
