package sandbox

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// masterFD is the child's end of its terminal that it hands over.
const masterFD = nextFD

// Terminal adds that the child makes a terminal, which becomes its controlling one and its
// three standard descriptors, as the user that it is by then and behind its walls: with the
// wall Mounts the terminal is of the child's own devpts, and nobody else's. The child MUST
// lead its session. HandOver gives the other end to the daemon.
func (p *Plan) Terminal(cols, rows uint16) {
	p.To("make a terminal")
	p.call(unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	p.call(unix.SYS_IOCTL, masterFD, unix.TIOCSPTLCK, words(0))
	// The lowest descriptor is what the next open returns, and TIOCGPTPEER is one.
	p.call(unix.SYS_CLOSE, 0)
	p.To("open its terminal")
	p.call(unix.SYS_IOCTL, masterFD, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	p.call(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	p.To("set up its terminal")
	p.call(unix.SYS_IOCTL, 0, unix.TCSETS, bytesOf(terminalModes))
	p.call(unix.SYS_IOCTL, 0, unix.TIOCSWINSZ, bytesOf(unix.Winsize{Row: rows, Col: cols}))
	p.call(unix.SYS_DUP3, 0, 1, 0)
	p.call(unix.SYS_DUP3, 0, 2, 0)
}

// HandOver is Agree for a child with a terminal: it sends the terminal's other end, which
// closes in the child at execve, with the text.
func (p *Plan) HandOver(text string) {
	p.call(unix.SYS_READ, ErrorsFD, []byte{0}, 1)
	part := words(p.keep([]byte(text)), uint64(len(text))) // struct iovec
	rights := unix.UnixRights(masterFD)
	p.call(unix.SYS_SENDMSG, ErrorsFD, words( // struct msghdr
		0, 0, // to whom the socket leads
		p.keep(part), 1,
		p.keep(rights), uint64(len(rights)),
		0,
	), unix.MSG_NOSIGNAL)
}

// bytesOf is a structure as the kernel reads it.
func bytesOf(v any) []byte {
	b, err := binary.Append(nil, binary.NativeEndian, v)
	if err != nil {
		panic(err) // it has a size
	}
	return b
}

// terminalModes are those that a new terminal of the kernel has (tty_std_termios), and
// IUTF8: without it, one backspace takes a byte of a character.
var terminalModes = unix.Termios{
	Iflag: unix.ICRNL | unix.IXON | unix.IUTF8,
	Oflag: unix.OPOST | unix.ONLCR,
	Cflag: unix.B38400 | unix.CS8 | unix.CREAD | unix.HUPCL,
	Lflag: unix.ISIG | unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ECHOCTL | unix.ECHOKE | unix.IEXTEN,
	Cc: [19]uint8{
		unix.VINTR: 'C' - '@', unix.VQUIT: '\\' - '@', unix.VERASE: 0x7f, unix.VKILL: 'U' - '@', unix.VEOF: 'D' - '@', unix.VMIN: 1,
		unix.VSTART: 'Q' - '@', unix.VSTOP: 'S' - '@', unix.VSUSP: 'Z' - '@', unix.VREPRINT: 'R' - '@', unix.VDISCARD: 'O' - '@',
		unix.VWERASE: 'W' - '@', unix.VLNEXT: 'V' - '@',
	},
}
