//go:build unix

package cli

import (
	"io/fs"
	"syscall"
)

// openFlags let no special file block who opens it.
const openFlags = syscall.O_NONBLOCK

// ownerOf is the user that a file belongs to.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	s, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0, false
	}
	return int(s.Uid), true
}
