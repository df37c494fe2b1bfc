// Package child runs programs that cannot outlive this one. On other systems than Linux it only compiles.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a child that the kernel kills when this program ends, however it ends. Its methods may be called from
// several goroutines.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	err  error         // how it ended; valid once done is closed
}

// Start starts cmd, whose SysProcAttr it sets. The kernel kills the child when the thread that started it ends, so one
// goroutine keeps that thread for itself until the child is gone.
func Start(cmd *exec.Cmd) (*Process, error) { return start(cmd, false) }

// StartApart does the same in a process group of its own, which what is typed at the terminal does not interrupt.
func StartApart(cmd *exec.Cmd) (*Process, error) { return start(cmd, true) }

func start(cmd *exec.Cmd, apart bool) (*Process, error) {
	cmd.SysProcAttr = killedWithParent(apart)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended returns nil while the child runs, and afterwards an error with the way in which it ended.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("child: %s has ended: %v", p.cmd.Path, p.err)
	default:
		return nil
	}
}

// Signal sends a signal. A child that has ended already is no error.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the child at once, even a stopped one, and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
