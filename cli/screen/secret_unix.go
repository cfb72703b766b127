//go:build unix

package screen

import "golang.org/x/sys/unix"

// hide lets a terminal no longer show what is typed, until show is called.
func hide(fd uintptr) (show func() error, err error) {
	was, err := unix.IoctlGetTermios(int(fd), getTermios)
	if err != nil {
		return nil, err
	}
	hidden := *was
	hidden.Lflag &^= unix.ECHO
	return func() error { return unix.IoctlSetTermios(int(fd), setTermios, was) }, unix.IoctlSetTermios(int(fd), setTermios, &hidden)
}
