package attacks

// What is not shown to a program is not there, or closed to its user.
const (
	hidden   = "ENOENT|EACCES"
	readOnly = "EROFS|EACCES"
)

// onFiles are attacks on files: of another program, the daemon, the host.
var onFiles = []row{
	{name: "read the victim's file", by: "cpn", want: hidden, control: "ok"},
	{name: "write to the victim's directory", by: "cpn", want: hidden, control: "ok"},
	{name: "read the database", by: "cpn", want: hidden, control: "ok"},
	{name: "read the write-ahead log", by: "cpn", want: hidden, control: "ok"},
	{name: "write to the database", by: "c", want: hidden, control: "ok"},
	{name: "read a file of the host", by: "cpn", want: hidden, control: "ok"},
	{name: "read the passwords of the host", by: "cpn", want: hidden, control: "ok"},
	{name: "link to the victim's file", by: "cpn", want: hidden, control: "ok|EXDEV"},
	{name: "link to a set-uid program", by: "c", want: "EXDEV|EPERM", control: "ok|EXDEV"},
	{name: "write to a program of the system", by: "cpn", want: readOnly, control: "ok"},
	{name: "write to an installed runtime", by: "cpn", want: readOnly, control: "ok"},
	{name: "put a file beside an installed runtime", by: "c", want: readOnly, control: "ok"},
	{name: "write to the users", by: "c", want: readOnly, control: "ok"},
	{name: "make a file in the root directory", by: "c", want: readOnly},
	{name: "list the applications", by: "cpn", want: "none|EACCES", control: "ok"},
	{name: "list the data directory", by: "cpn", want: "none|EACCES", control: "ok"},
	{name: "find the victim's file in /tmp", by: "cpn", want: "ENOENT"},
	{name: "find the victim's shared memory", by: "cpn", want: "ENOENT"},
	{name: "find the host's shared memory", by: "c", want: "ENOENT", control: "ok"},
	{name: "attach the host's System V memory by number", by: "c", want: "EINVAL", control: "ok"},
	{name: "find the host's System V memory", by: "c", want: "ENOENT", control: "ok"},
	{name: "find the host's System V semaphore", by: "c", want: "ENOENT", control: "ok"},
	{name: "find the host's System V queue", by: "c", want: "ENOENT", control: "ok"},
	{name: "find the victim's System V memory", by: "c", want: "ENOENT"},
	{name: "open the host's message queue", by: "c", want: "ENOENT", control: "ok"},

	{name: "enter the victim's root directory", by: "cpn", want: "ENOENT", control: "ok"},
	{name: "enter the victim's working directory", by: "c", want: "ENOENT", control: "ok"},
	{name: "open the victim's descriptor", by: "c", want: "ENOENT", control: "ok"},
	{name: "read the victim's environment", by: "cpn", want: "ENOENT", control: "ok"},
	{name: "read the victim's command line", by: "c", want: "ENOENT", control: "ok"},
	{name: "read the daemon's environment", by: "cpn", want: "ENOENT", control: "ok"},
	{name: "read the daemon's command line", by: "cpn", want: "ENOENT", control: "ok"},
	{name: "open the daemon's memory", by: "cpn", want: "ENOENT", control: "ok"},
	{name: "read the daemon's map", by: "c", want: "ENOENT", control: "ok"},
	{name: "list the daemon's descriptors", by: "cpn", want: "ENOENT", control: "ok"},
	{name: "enter the daemon's root directory", by: "c", want: "ENOENT", control: "ok"},
	{name: "see processes of others", by: "cpn", want: "none", control: "ok"},
	{name: "see who holds locks", by: "c", want: "none", control: "ok"},
	{name: "count the keys of others", by: "c", want: "none|ENOENT", control: "ok|ENOENT"},
	{name: "count interrupts", by: "c", want: "none|ENOENT", control: "ok|ENOENT"},

	{name: "write to any file of /sys", by: "c", want: "none", control: "ok"},
	{name: "write to any file of /proc/sys", by: "c", want: "none", control: "ok"},
	{name: "write the core pattern", by: "cpn", want: readOnly, control: "ok"},
	// Not every kernel has the next three.
	{name: "write the path of modprobe", by: "c", want: readOnly + "|ENOENT", control: "ok|ENOENT"},
	{name: "write to sysrq-trigger", by: "cpn", want: readOnly + "|ENOENT", control: "ok|ENOENT"},
	{name: "read the kernel's memory", by: "c", want: "EACCES|EPERM|ENOENT", control: "ok|ENOENT"},
	{name: "read the kernel's messages", by: "cpn", want: "EACCES|EPERM", control: "ok"},
	// In a container root may not either.
	{name: "lower its own oom_score_adj", by: "cpn", want: "EACCES|EPERM", control: "ok|EACCES"},

	{name: "write to cgroup.procs of its own group", by: "cpn", want: readOnly, control: "ok"},
	{name: "write to cgroup.kill", by: "c", want: readOnly, control: "ok"},
	{name: "write to cgroup.freeze", by: "c", want: readOnly, control: "ok"},
	{name: "write to cgroup.subtree_control", by: "c", want: readOnly, control: "ok"},
	{name: "write to cgroup.threads", by: "c", want: readOnly, control: "ok"},
	{name: "make a group below its own", by: "c", want: readOnly, control: "ok"},
	{name: "write its memory limit", by: "c", want: readOnly, control: "ok"},
	{name: "write to cgroup.procs of the group above", by: "c", want: hidden, control: "ok"},
	{name: "write to cgroup.procs of the victim's group", by: "c", want: hidden, control: "ok"},
	// On a unified host there is none for root either.
	{name: "write a release agent", by: "c", want: "none"},

	{name: "make a character device", by: "cp", want: "EPERM", control: "ok"},
	{name: "make a block device", by: "c", want: "EPERM", control: "ok|EEXIST"},
	{name: "open a disk", by: "c", want: "none", control: "ok"},
	{name: "open devices of the kernel", by: "c", want: "none", control: "ok"},
	{name: "use descriptors that leaked", by: "cp", want: "none"},
	{name: "find the daemon's environment in its own", by: "cpn", want: "none"},
}
