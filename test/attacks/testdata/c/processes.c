// Processes, privileges, namespaces and what only the kernel's owner may do.
#include "attacker.h"
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/fanotify.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <grp.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/timex.h>

#define VICTIM number("victim")
#define DAEMON number("daemon")

// Signals. Zero is sent to nobody, and asks whether another could be.
ATTACK(k1, "signal the daemon") { return failed(kill(DAEMON, 0)); }
ATTACK(k2, "signal the victim") { return failed(kill(VICTIM, 0)); }
ATTACK(k3, "signal a thread of the victim") { return failed(syscall(SYS_tgkill, VICTIM, VICTIM, 0)); }
ATTACK(k4, "signal process 1") { return failed(kill(1, 0)); }
ATTACK(k5, "signal the victim's descriptor")
{
	int fd = syscall(SYS_pidfd_open, VICTIM, 0);
	return fd < 0 ? -errno : failed(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
}
// The victims are real: they would end. Only its own heed it not.
ATTACK(k6, "signal everybody") { return control ? 0 : failed(kill(-1, SIGUSR1)); }

// Memory and threads of others.
static long tamper(int nr, int pid)
{
	char b[8] = "";
	struct iovec here = {b, sizeof b}, there = {b, sizeof b};
	if (control)
		pid = getpid();
	return failed(syscall(nr, pid, &here, 1, &there, 1, 0));
}
ATTACK(m1, "read the daemon's memory by process_vm_readv") { return tamper(SYS_process_vm_readv, DAEMON); }
ATTACK(m2, "write the victim's memory by process_vm_writev") { return tamper(SYS_process_vm_writev, VICTIM); }
static long traces(int how, int pid)
{
	if (control && (pid = fork()) == 0)
		for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
			pause();
	long r = failed(ptrace(how, pid, 0, 0));
	if (control)
		kill(pid, SIGKILL);
	return r;
}
ATTACK(m3, "attach to the victim by ptrace") { return traces(PTRACE_ATTACH, VICTIM); }
ATTACK(m4, "seize the daemon by ptrace") { return traces(PTRACE_SEIZE, DAEMON); }
ATTACK(m5, "be traced") { return failed(ptrace(PTRACE_TRACEME, 0, 0, 0)); }
ATTACK(m6, "take the victim's descriptor")
{
	int fd = syscall(SYS_pidfd_open, VICTIM, 0);
	return fd < 0 ? -errno : failed(syscall(SYS_pidfd_getfd, fd, 1, 0));
}
ATTACK(m7, "compare with the daemon") { return failed(syscall(SYS_kcmp, getpid(), control ? getpid() : DAEMON, 0, 0, 0)); }
ATTACK(m8, "set the victim's limits")
{
	struct rlimit limit;
	return failed(prlimit(VICTIM, RLIMIT_NOFILE, NULL, &limit));
}
ATTACK(m9, "set the victim's priority") { return failed(setpriority(PRIO_PROCESS, VICTIM, 0)); }
ATTACK(m10, "set the victim's processors")
{
	cpu_set_t all;
	memset(&all, 0xff, sizeof all);
	return failed(sched_setaffinity(VICTIM, sizeof all, &all));
}

// Privileges.
ATTACK(u1, "become root") { return failed(setuid(0)); }
ATTACK(u2, "become root's group") { return failed(setgid(0)); }
ATTACK(u3, "join groups")
{
	gid_t g[] = {0, 27};
	return failed(setgroups(2, g));
}
ATTACK(u4, "become the victim") { return failed(setresuid(number("victim-uid"), -1, -1)); }
ATTACK(u5, "open files as root")
{
	setfsuid(0);
	return setfsuid(-1) == 0 ? 0 : NONE;
}
ATTACK(u6, "take capabilities")
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 0}, {0}};
	return failed(syscall(SYS_capset, &h, d));
}
static void *in_thread(void *r)
{
	*(long *)r = failed(syscall(SYS_setuid, 0)); // glibc's would ask all threads
	return NULL;
}
ATTACK(u7, "become root in a thread")
{
	pthread_t t;
	long r = 1;
	if (pthread_create(&t, NULL, in_thread, &r))
		return -errno;
	pthread_join(t, NULL);
	return r;
}
// runs is whether a program gained what it should not.
static long runs(const char *file, const char *flag)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (control && (setgid(65534) || setuid(65534)))
			_exit(1);
		execl(file, file, flag, NULL);
		_exit(errno == ENOENT ? 1 : 2);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	return WEXITSTATUS(status) == 77 ? 0 : WEXITSTATUS(status) == 0 ? NONE : -ENOEXEC;
}
ATTACK(u8, "run a set-uid program") { return runs(target("setuid"), "--euid"); }
ATTACK(u9, "run a program with capabilities") { return runs(target("capable"), "--capability"); }
ATTACK(u10, "run su")
{
	// It is root while it asks, where set-uid bits count.
	int in[2], status;
	if (pipe(in))
		return -errno;
	pid_t pid = fork();
	if (pid == 0) {
		dup2(in[0], 0);
		close(in[1]);
		close(2);
		execl("/bin/su", "su", "-c", "exit 77", NULL);
		_exit(1);
	}
	close(in[0]);
	close(in[1]); // the end of what it may ask
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 0 : NONE;
}
ATTACK(u11, "make a set-uid program of its own")
{
	char b[1 << 16];
	ssize_t n;
	int from = open("/proc/self/exe", O_RDONLY), to = open("copy", O_CREAT | O_WRONLY | O_TRUNC, 0755);
	if (from < 0 || to < 0)
		return -errno;
	while ((n = read(from, b, sizeof b)) > 0)
		if (write(to, b, n) != n)
			return -errno;
	// It cannot belong to root, who alone would be of use.
	long chown_root = failed(fchown(to, 0, 0)), gained;
	fchmod(to, 06755);
	close(to);
	gained = runs("./copy", "--euid");
	unlink("copy");
	return chown_root == 0 ? 0 : gained;
}
ATTACK(u12, "raise its limit of files")
{
	struct rlimit limit = {1 << 19, 1 << 19};
	return failed(setrlimit(RLIMIT_NOFILE, &limit));
}
ATTACK(u13, "raise its limit of core files")
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	return failed(setrlimit(RLIMIT_CORE, &limit));
}
ATTACK(u14, "raise its priority") { return failed(setpriority(PRIO_PROCESS, 0, -5)); }
ATTACK(u15, "run in real time")
{
	struct sched_param p = {1};
	return failed(sched_setscheduler(0, SCHED_FIFO, &p));
}
ATTACK(u16, "write to the disk in real time") { return failed(syscall(SYS_ioprio_set, 1, 0, 1 << 13)); }
ATTACK(u17, "allow new privileges again") { return control ? 0 : failed(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)); }
ATTACK(u18, "take the filter of system calls off") { return control ? 0 : failed(prctl(PR_SET_SECCOMP, 0, 0, 0, 0)); }

// Mounts.
ATTACK(o1, "mount a file system")
{
	apart();
	return failed(mount("x", "/tmp", "tmpfs", 0, ""));
}
ATTACK(o2, "make the root directory writable")
{
	apart();
	return failed(mount("", "/", "", MS_REMOUNT | MS_BIND, ""));
}
ATTACK(o3, "mount a directory again")
{
	apart();
	return failed(mount("/tmp", "/tmp", "", MS_BIND, ""));
}
ATTACK(o4, "unmount /proc")
{
	apart();
	return failed(umount2("/proc", MNT_DETACH));
}
ATTACK(o5, "change the root directory by pivot_root")
{
	apart();
	return failed(syscall(SYS_pivot_root, ".", "."));
}
ATTACK(o6, "change the root directory by chroot") { return failed(chroot("/tmp")); }
CALL(o7, "copy a mount by open_tree", SYS_open_tree, AT_FDCWD, "/tmp", 1)
CALL(o8, "open a file system by fsopen", SYS_fsopen, "tmpfs", 0)
CALL(o9, "pick a mount by fspick", SYS_fspick, AT_FDCWD, "/proc", 0)
ATTACK(o10, "change a mount by mount_setattr")
{
	apart();
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID};
	return failed(syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, &a, sizeof a));
}
ATTACK(o11, "move a mount by move_mount")
{
	apart();
	return failed(syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0));
}
CALL(o12, "make a disk swap space", SYS_swapon, "no-such-file", 0)
ATTACK(o13, "open a file by its handle")
{
	struct {
		struct file_handle h;
		char room[128];
	} f = {{.handle_bytes = 128}};
	int id, root = open(".", O_RDONLY | O_DIRECTORY);
	long r = failed(name_to_handle_at(AT_FDCWD, target(control ? "host-file" : "setuid"), &f.h, &id, 0));
	return r ? r : failed(open_by_handle_at(root, &f.h, O_RDONLY));
}
CALL(o14, "open any handle", SYS_open_by_handle_at, AT_FDCWD, NULL, 0)
CALL(o15, "watch a file system by fanotify", SYS_fanotify_init, FAN_CLASS_CONTENT, O_RDONLY)
CALL(o16, "set a quota", SYS_quotactl, 0x80000000 | (0x800007 << 8), "/dev/null", 0, NULL)
ATTACK(o17, "set flags of a file")
{
	int flags = FS_NOATIME_FL, fd = open("flagged", O_CREAT | O_RDWR, 0600);
	long r = fd < 0 ? -errno : failed(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	unlink("flagged");
	return r;
}

// Namespaces.
CALL(n1, "make a user namespace", SYS_unshare, CLONE_NEWUSER)
CALL(n2, "make a mount namespace", SYS_unshare, CLONE_NEWNS)
CALL(n3, "make a pid namespace", SYS_unshare, CLONE_NEWPID)
CALL(n4, "make a network namespace", SYS_unshare, CLONE_NEWNET)
CALL(n5, "make an IPC namespace", SYS_unshare, CLONE_NEWIPC)
CALL(n6, "make a host name namespace", SYS_unshare, CLONE_NEWUTS)
CALL(n7, "make a control group namespace", SYS_unshare, CLONE_NEWCGROUP)
CALL(n8, "make a time namespace", SYS_unshare, CLONE_NEWTIME)
static long born(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return pid < 0 ? -errno : failed(waitpid(pid, NULL, 0));
}
ATTACK(n9, "be born in a user namespace") { return born(CLONE_NEWUSER); }
ATTACK(n10, "be born in a network namespace") { return born(CLONE_NEWNET); }
ATTACK(n11, "be born in a user namespace by clone3")
{
	struct clone_args a = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &a, sizeof a);
	if (pid == 0)
		_exit(0);
	return pid < 0 ? -errno : failed(waitpid(pid, NULL, 0));
}
static long joins(const char *kind, int pid)
{
	int fd = open(path("/proc/%d/ns/%s", pid, kind), O_RDONLY);
	return fd < 0 ? -errno : failed(setns(fd, 0));
}
ATTACK(n12, "join the daemon's mount namespace") { return joins("mnt", DAEMON); }
ATTACK(n13, "join the victim's IPC namespace") { return joins("ipc", VICTIM); }
ATTACK(n14, "join its own network namespace") { return joins("net", getpid()); }
ATTACK(n15, "join the victim by a descriptor")
{
	int fd = syscall(SYS_pidfd_open, VICTIM, 0);
	return fd < 0 ? -errno : failed(setns(fd, CLONE_NEWIPC));
}

// The machine. The arguments do nothing should they be heeded.
CALL(r1, "load a module", SYS_init_module, NULL, 0, "")
CALL(r2, "load a module of a file", SYS_finit_module, -1, "", 0)
CALL(r3, "unload a module", SYS_delete_module, "no-such-module", O_NONBLOCK)
CALL(r4, "load another kernel", SYS_kexec_load, 0, 0, NULL, 0xffff)
CALL(r5, "load another kernel of a file", SYS_kexec_file_load, -1, -1, 0, "", 0xffff)
CALL(r6, "restart the machine", SYS_reboot, 0, 0, 0, NULL)
ATTACK(r7, "set the time")
{
	struct timespec t = {-1, 0};
	return failed(syscall(SYS_clock_settime, CLOCK_REALTIME, &t));
}
ATTACK(r8, "set the time zone")
{
	struct timezone z = {100000, 0};
	return failed(syscall(SYS_settimeofday, NULL, &z));
}
ATTACK(r9, "adjust the clock")
{
	struct timex t = {.modes = ADJ_TICK, .tick = 1};
	return failed(syscall(SYS_adjtimex, &t));
}
ATTACK(r10, "change the host's name") { return failed(sethostname("planted", 7)); }
CALL(r11, "change the domain's name", SYS_setdomainname, "planted", 7)
CALL(r12, "account for processes", SYS_acct, "/no/such/file")
CALL(r13, "read the kernel's log", SYS_syslog, 10, NULL, 0)
#ifdef SYS_iopl
CALL(r14, "use ports of the machine", SYS_iopl, 3)
#else
ATTACK(r14, "use ports of the machine") { return control ? 0 : -EPERM; } // this kind has none
#endif
CALL(r15, "read its keys", SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1)
CALL(r16, "add a key", SYS_add_key, "user", "planted", "x", 1, KEY_SPEC_PROCESS_KEYRING)
CALL(r17, "ask for a key", SYS_request_key, "user", "no-such-key", NULL, KEY_SPEC_PROCESS_KEYRING)
ATTACK(r18, "set up an io_uring")
{
	struct io_uring_params p = {0};
	return failed(syscall(SYS_io_uring_setup, 1, &p));
}
ATTACK(r19, "load an eBPF map")
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	return failed(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}
CALL(r20, "handle page faults", SYS_userfaultfd, O_CLOEXEC | 1)
ATTACK(r21, "count the machine's events")
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_CPU_CLOCK};
	return failed(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}
ATTACK(r22, "type into its terminal")
{
	int m = posix_openpt(O_RDWR | O_NOCTTY);
	if (m < 0 || grantpt(m) || unlockpt(m))
		return -ENOTTY;
	setsid();
	int s = open(ptsname(m), O_RDWR);
	return s < 0 ? -errno : failed(ioctl(s, TIOCSTI, "x"));
}
ATTACK(r23, "move pages of the daemon") { return failed(syscall(SYS_migrate_pages, control ? 0 : DAEMON, 0, NULL, NULL)); }
