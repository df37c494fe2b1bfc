//go:build !linux

package child

import "syscall"

// killedWithParent has nothing to offer here. pre-commit builds the whole module, on macOS, too.
func killedWithParent(bool) *syscall.SysProcAttr { return nil }
