package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/wait"
)

// mps is a server of CUDA's Multi-Process Service, by which engines run on one GPU at the same time, each with a share
// of its multiprocessors.
type mps struct {
	process *child.Process
	folder  string   // of its sockets, whose paths have to be short
	env     []string // of those who use it
}

// mpsPatience is how long the service may take until it listens, and to end.
const mpsPatience = 20 * time.Second

// startMPS starts the service for shares of 1/each.
func startMPS(ctx context.Context, each int, log string) (*mps, error) {
	folder, err := os.MkdirTemp("", "mps-")
	if err != nil {
		return nil, err
	}
	m := &mps{folder: folder}
	m.env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+folder, "CUDA_MPS_LOG_DIRECTORY="+folder)
	cmd := exec.Command(mpsControl, "-f")
	if m.process, err = startLogged(cmd, log, m.env); err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	m.env = append(m.env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="+strconv.Itoa(100/each))
	ready, cancel := context.WithTimeout(ctx, mpsPatience)
	defer cancel()
	err = wait.Poll(ready, 50*time.Millisecond, func() (bool, error) {
		err := m.command(ready, "get_server_list")
		return err == nil, m.process.Ended()
	})
	if err != nil {
		m.stop()
		return nil, fmt.Errorf("%s does not listen, see %s: %w", mpsControl, log, err)
	}
	return m, nil
}

// stop ends the service, once nobody uses it.
func (m *mps) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), mpsPatience)
	defer cancel()
	if m.command(ctx, "quit -t 5") == nil { // else it is ended below, as far as it is there
		select {
		case <-m.process.Done():
		case <-ctx.Done():
		}
	}
	_ = m.process.Kill()
	_ = os.RemoveAll(m.folder)
}

// command has the service do something.
func (m *mps) command(ctx context.Context, text string) error {
	cmd := exec.CommandContext(ctx, mpsControl)
	cmd.Stdin, cmd.Env = strings.NewReader(text+"\n"), m.env
	return cmd.Run()
}

// startLogged starts a program that prints into a file.
func startLogged(cmd *exec.Cmd, log string, env []string) (*child.Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the program has its own
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, env
	return child.Start(cmd)
}
