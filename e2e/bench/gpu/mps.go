package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// startMPS starts the service for shares of 1/each of the GPUs. Its logs are in the folder.
func startMPS(ctx context.Context, cards []card, each int, logs string) (*mps, error) {
	folder, err := os.MkdirTemp("", "mps-")
	if err != nil {
		return nil, err
	}
	m := &mps{folder: folder}
	m.env = append(onCards(os.Environ(), cards...), "CUDA_MPS_PIPE_DIRECTORY="+folder, "CUDA_MPS_LOG_DIRECTORY="+logs)
	cmd := exec.Command(mpsControl, "-f")
	if m.process, err = startLogged(cmd, filepath.Join(logs, "mps.log"), m.env); err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	m.env = append(m.env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="+strconv.Itoa(100/each))
	ready, cancel := context.WithTimeout(ctx, mpsPatience)
	defer cancel()
	err = wait.Poll(ready, 50*time.Millisecond, func() (bool, error) {
		_, err := m.command(ready, "get_server_list")
		return err == nil, m.process.Ended()
	})
	if err != nil {
		m.stop()
		return nil, fmt.Errorf("%s does not listen, see mps.log, control.log and server.log in %s: %w",
			mpsControl, logs, err)
	}
	return m, nil
}

// stop ends the service, once nobody uses it.
func (m *mps) stop() {
	servers := m.servers()
	ctx, cancel := context.WithTimeout(context.Background(), mpsPatience)
	defer cancel()
	if _, err := m.command(ctx, "quit -t 5"); err == nil { // else it is ended below, as far as it is there
		select {
		case <-m.process.Done():
		case <-ctx.Done():
		}
	}
	if m.process.Ended() == nil { // its servers would outlive it
		for _, pid := range servers {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended
			}
		}
	}
	_ = m.process.Kill()
	_ = os.RemoveAll(m.folder)
}

// servers returns the processes that the service has started, as far as it says them.
func (m *mps) servers() (pids []int) {
	ctx, cancel := context.WithTimeout(context.Background(), mpsPatience/4)
	defer cancel()
	list, _ := m.command(ctx, "get_server_list")
	for text := range strings.FieldsSeq(list) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// command has the service do something, and returns what it says.
func (m *mps) command(ctx context.Context, text string) (string, error) {
	cmd := exec.CommandContext(ctx, mpsControl)
	cmd.Stdin, cmd.Env, cmd.WaitDelay = strings.NewReader(text+"\n"), m.env, time.Second
	out, err := cmd.Output()
	return string(out), err
}

// startLogged starts a program that prints into a file, and that an interrupt at the terminal does not reach: it is
// ended in its turn.
func startLogged(cmd *exec.Cmd, log string, env []string) (*child.Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the program has its own
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, env
	return child.StartApart(cmd)
}
