package faultproxy

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// deafen has the kernel drop all packets to a socket, or no longer, by a filter that accepts none of their bytes.
func deafen(socket any, deaf bool) error {
	raw, err := socket.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if deaf {
			none := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}}
			failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &none)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	})
	if errors.Is(err, net.ErrClosed) { // meanwhile
		return nil
	}
	return errors.Join(err, failed)
}
