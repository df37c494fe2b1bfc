package child

import "syscall"

// killedWithParent has the kernel kill a child when the thread that started it ends.
func killedWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
