package child

import "syscall"

// killedWithParent has the kernel kill a child when the thread that started it ends. Apart is one with a process group
// of its own.
func killedWithParent(apart bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: apart}
}
