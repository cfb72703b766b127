package files

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kinds of quota, as quotactl_fd(2) numbers them.
const (
	userQuota    = 0 // USRQUOTA
	projectQuota = 2 // PRJQUOTA
)

// The commands of quotactl_fd (linux/quota.h, linux/dqblk_xfs.h). ext4 and XFS
// answer all three.
const (
	cmdGet   = 0x800007   // Q_GETQUOTA
	cmdSet   = 0x800008   // Q_SETQUOTA
	cmdState = 'X'<<8 + 8 // Q_XGETQSTATV
)

// What Q_XGETQSTATV tells: which limits are enforced, not only counted.
const (
	userEnforced    = 1 << 1 // FS_QUOTA_UDQ_ENFD
	projectEnforced = 1 << 5 // FS_QUOTA_PDQ_ENFD
)

// blockQuota is struct if_dqblk. The limits of blocks are in units of 1024
// bytes, what is taken is in bytes.
type blockQuota struct {
	hard, soft, bytes, inodesHard, inodesSoft, inodes, blockTime, inodeTime uint64
	valid                                                                   uint32
	_                                                                       uint32
}

const validLimits = 1<<0 | 1<<2 // QIF_BLIMITS, QIF_ILIMITS

// quotaState is struct fs_quota_statv.
type quotaState struct {
	version int8
	_       uint8
	flags   uint16
	_       [156]byte
}

// quotactl is quotactl_fd (Linux 5.14), which takes any directory of the file
// system where quotactl takes its device.
func quotactl(d dir, command, kind int, id uint32, at unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(d), uintptr(command<<8|kind), uintptr(id), uintptr(at), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// quotasOn returns which quotas of d's file system are enforced, or an error
// when it has none.
func quotasOn(d dir) (uint16, error) {
	s := quotaState{version: 1} // FS_QSTATV_VERSION1
	err := quotactl(d, cmdState, userQuota, 0, unsafe.Pointer(&s))
	return s.flags, err
}

// getQuota returns the limits of an id and what it takes.
func getQuota(d dir, kind int, id uint32) (blockQuota, error) {
	var q blockQuota
	err := quotactl(d, cmdGet, kind, id, unsafe.Pointer(&q))
	return q, err
}

// setQuota sets the limits of an id; 0 is none.
func setQuota(d dir, kind int, id uint32, bytes, files int64) error {
	q := blockQuota{hard: uint64(bytes+1023) >> 10, inodesHard: uint64(files), valid: validLimits}
	return quotactl(d, cmdSet, kind, id, unsafe.Pointer(&q))
}

// fileProject is struct fsxattr (linux/fs.h).
type fileProject struct {
	flags, extentSize, extents, project, copySize uint32
	_                                             [8]byte
}

// The ioctls of struct fsxattr, which need no right but to the file itself.
const (
	getProject = 0x801c581f // FS_IOC_FSGETXATTR
	setProject = 0x401c5820 // FS_IOC_FSSETXATTR
)

// inherits is the flag of a directory whose new entries are of its project
// (FS_XFLAG_PROJINHERIT).
const inherits = 0x200

// project tells the project of an open file or directory.
func (d dir) project() (fileProject, error) {
	var x fileProject
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d), getProject, uintptr(unsafe.Pointer(&x)))
	if errno != 0 {
		return x, errno
	}
	return x, nil
}

// writeProject changes it.
func (d dir) writeProject(x fileProject) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d), setProject, uintptr(unsafe.Pointer(&x)))
	if errno != 0 {
		return errno
	}
	return nil
}

// setProject charges an open file or directory, and what will be made in it,
// to a project.
func (d dir) setProject(id uint32) error {
	x, err := d.project()
	if err != nil {
		return err
	}
	st, err := d.self()
	if err != nil {
		return err
	}
	want := x
	want.project = id
	if isDir(&st) { // of a file it makes no sense, and XFS refuses it
		want.flags |= inherits
	}
	if want == x {
		return nil
	}
	return d.writeProject(want)
}
