package harness

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenPTY opens a pseudoterminal: the side of the person, and that of the command. The test
// closes both.
func OpenPTY(t testing.TB, columns, rows uint16) (person, terminal *os.File) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal("cannot open a terminal: ", err)
		}
	}
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	fail(err)
	conn, err := person.SyscallConn() // Fd would take O_NONBLOCK, and with it Close's end of a read
	fail(err)
	number := 0
	var failed error
	err = conn.Control(func(side uintptr) {
		fd := int(side)
		if number, failed = unix.IoctlGetInt(fd, unix.TIOCGPTN); failed != nil {
			return
		}
		if failed = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		failed = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	fail(err)
	fail(failed)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	fail(err)
	return person, terminal
}
