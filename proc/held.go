package proc

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/app"
)

// maxHeld bounds how many files without a name are told apart; beyond it one
// counts each time that it is met.
const maxHeld = 100_000

// inode tells a file from others.
type inode struct{ dev, ino uint64 }

// holdings adds up files without a name.
type holdings struct {
	ctx   context.Context
	uid   uint32 // of whom they are
	seen  map[inode]bool
	space app.Space
}

// process looks at one process. What ends meanwhile holds nothing. Its first thread
// may have ended, with what it had open and mapped, and others go on.
func (h *holdings) process(pid int) error {
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	var tables []int // one thread of each table of descriptors
	mapped := false
	return h.each(base, func(name string) error {
		tid, err := strconv.Atoi(name)
		if err == nil && !mapped {
			mapped, err = h.maps("/proc/" + name)
		}
		if err != nil || h.shares(tid, tables) {
			return err
		}
		tables = append(tables, tid)
		fds := base + "/" + name + "/fd"
		return h.each(fds, func(fd string) error {
			h.file(fds + "/" + fd)
			return nil
		})
	})
}

// shares reports whether a thread has the table of descriptors of one of others. It
// may have its own.
func (h *holdings) shares(tid int, others []int) bool {
	const files = 2 // KCMP_FILES
	for _, o := range others {
		same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(tid), uintptr(o), files, 0, 0, 0)
		if errno == 0 && same == 0 {
			return true
		}
	}
	return false
}

// each calls fn with the names in a directory of /proc; one that is gone has none.
func (h *holdings) each(path string, fn func(name string) error) error {
	d, err := os.Open(path)
	if err != nil {
		return h.ctx.Err()
	}
	defer d.Close()
	for {
		names, _ := d.Readdirnames(1000)
		if err := h.ctx.Err(); err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
		}
	}
}

// file counts what a link of /proc leads to, if it is a file of the program's own
// on a disk that has no name and was not met before.
func (h *holdings) file(link string) {
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != h.uid {
		return
	}
	key := inode{st.Dev, st.Ino}
	if h.seen[key] {
		return
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(link, &fs); err != nil || inMemory(fs.Type) {
		return
	}
	if len(h.seen) < maxHeld {
		h.seen[key] = true
	}
	const unit = 512 // of st_blocks, whatever the file system's is
	h.space.Bytes += st.Blocks * unit
	h.space.Entries++
}

// inMemory reports whether the files of a file system take no disk: a group's
// memory has them.
func inMemory(magic int64) bool {
	const secretmem = 0x5345434d
	return magic == unix.TMPFS_MAGIC || magic == unix.RAMFS_MAGIC || magic == unix.HUGETLBFS_MAGIC || magic == secretmem
}

// maps counts the files that a thread has mapped, with or without a descriptor, and
// reports whether it has a memory: all threads of a process have the same.
func (h *holdings) maps(base string) (bool, error) {
	f, err := os.Open(base + "/maps")
	if err != nil {
		return false, h.ctx.Err()
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 64<<10)
	for n := 0; ; n++ {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return n > 0, h.ctx.Err() // its end, or that of the process
		}
		if n%1000 == 0 && h.ctx.Err() != nil {
			return true, h.ctx.Err()
		}
		if !bytes.HasSuffix(line, []byte(" (deleted)\n")) {
			continue
		}
		// Its name there has no zeros in front (fs/proc/base.c).
		at, _, _ := bytes.Cut(line, []byte(" "))
		if from, to, ok := bytes.Cut(at, []byte("-")); ok {
			h.file(base + "/map_files/" + string(bytes.TrimLeft(from, "0")) + "-" + string(bytes.TrimLeft(to, "0")))
		}
	}
}
