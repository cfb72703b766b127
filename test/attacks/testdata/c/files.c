// Files: of another program, of the daemon, of the host.
#include "attacker.h"
#include <mqueue.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/swap.h>
#include <sys/sysmacros.h>

ATTACK(f1, "read the victim's file") { return reads(path("%s/secret", target("victim-dir"))); }
ATTACK(f2, "write to the victim's directory") { return opens(path("%s/planted", target("victim-dir")), O_CREAT | O_WRONLY); }
ATTACK(f3, "read the database") { return reads(path("%s/berth.db", target("data"))); }
ATTACK(f4, "read the write-ahead log") { return reads(path("%s/berth.db-wal", target("data"))); }
ATTACK(f5, "write to the database") { return opens(path("%s/berth.db", target("data")), O_WRONLY); }
ATTACK(f6, "read a file of the host") { return reads(target("host-file")); }
ATTACK(f7, "read the passwords of the host") { return reads("/etc/shadow"); }
ATTACK(f8, "link to the victim's file") { return failed(link(path("%s/secret", target("victim-dir")), "stolen")); }
ATTACK(f9, "link to a set-uid program") { return failed(link(target("setuid"), "mine")); }
ATTACK(f10, "write to a program of the system") { return opens("/usr/bin/env", O_WRONLY); }
ATTACK(f10a, "write to an installed runtime") { return opens(path("%s/runtimes/node/0.0.1/bin/node", target("data")), O_WRONLY); }
ATTACK(f10b, "put a file beside an installed runtime") { return opens(path("%s/runtimes/node/0.0.1/bin/planted", target("data")), O_CREAT | O_WRONLY); }
ATTACK(f11, "write to the users") { return opens("/etc/passwd", O_WRONLY); }
ATTACK(f12, "make a file in the root directory") { return opens("/planted", O_CREAT | O_WRONLY); }

// others are the entries of a directory but one.
static long others(const char *dir, const char *own)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	long found = NONE;
	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, own))
			found = 0;
	closedir(d);
	return found;
}

ATTACK(f13, "list the applications")
{
	char here[4096];
	if (!getcwd(here, sizeof here))
		return -errno;
	return others(path("%s/apps", target("data")), control ? "" : strrchr(here, '/') + 1);
}
ATTACK(f14, "list the data directory") { return others(target("data"), "apps"); }
ATTACK(f15, "find the victim's file in /tmp") { return reads(path("/tmp/%s", target("token"))); }
ATTACK(f16, "find the victim's shared memory") { return opens(path("/dev/shm/%s", target("token")), O_RDWR); }
ATTACK(f17, "find the host's shared memory") { return opens(path("/dev/shm/host-%s", target("token")), O_RDWR); }
ATTACK(f18, "attach the host's System V memory by number") { return (long)shmat(number("shm-id"), NULL, SHM_RDONLY) == -1 ? -errno : 0; }
ATTACK(f19, "find the host's System V memory") { return failed(shmget(number("ipc-key"), 0, 0)); }
ATTACK(f20, "find the host's System V semaphore") { return failed(semget(number("ipc-key"), 0, 0)); }
ATTACK(f21, "find the host's System V queue") { return failed(msgget(number("ipc-key"), 0)); }
ATTACK(f22, "find the victim's System V memory") { return failed(shmget(number("victim-key"), 0, 0)); }
ATTACK(f23, "open the host's message queue") { return failed(mq_open(path("/%s", target("token")), O_RDONLY | O_NONBLOCK)); }

// By the back doors of /proc.
ATTACK(p1, "enter the victim's root directory") { return reads(path("/proc/%d/root%s/secret", number("victim"), target("victim-dir"))); }
ATTACK(p2, "enter the victim's working directory") { return reads(path("/proc/%d/cwd/secret", number("victim"))); }
ATTACK(p3, "open the victim's descriptor") { return opens(path("/proc/%d/fd/1", number("victim")), O_WRONLY); }
ATTACK(p4, "read the victim's environment") { return reads(path("/proc/%d/environ", number("victim"))); }
ATTACK(p5, "read the victim's command line") { return reads(path("/proc/%d/cmdline", number("victim"))); }
ATTACK(p6, "read the daemon's environment") { return reads(path("/proc/%d/environ", number("daemon"))); }
ATTACK(p7, "read the daemon's command line") { return reads(path("/proc/%d/cmdline", number("daemon"))); }
ATTACK(p8, "open the daemon's memory") { return opens(path("/proc/%d/mem", number("daemon")), O_RDWR); }
ATTACK(p9, "read the daemon's map") { return reads(path("/proc/%d/maps", number("daemon"))); }
ATTACK(p10, "list the daemon's descriptors") { return others(path("/proc/%d/fd", number("daemon")), ""); }
ATTACK(p11, "enter the daemon's root directory") { return reads(path("/proc/%d/root/etc/passwd", number("daemon"))); }
ATTACK(p12, "see processes of others")
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	struct stat st;
	long found = NONE;
	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && atoi(e->d_name) != getpid() && atoi(e->d_name) != getppid() &&
		    !fstatat(dirfd(d), e->d_name, &st, 0) && (control || st.st_uid != getuid()))
			found = 0;
	closedir(d);
	return found;
}

ATTACK(p13, "see who holds locks") { return reads("/proc/locks"); }
ATTACK(p14, "count the keys of others") { return reads("/proc/key-users"); }
ATTACK(p15, "count interrupts") { return reads("/proc/interrupts"); }

// writable is whether any file below can be opened for writing.
static long writable(const char *dir, int depth)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	long found = NONE;
	if (!d)
		return errno == ENOENT && depth == 0 ? -errno : NONE;
	while (found == NONE && (e = readdir(d))) {
		char below[4096];
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(below, sizeof below, "%s/%s", dir, e->d_name);
		if (e->d_type == DT_DIR && depth < 12)
			found = writable(below, depth + 1);
		else if (e->d_type == DT_REG && strcmp(e->d_name, "ns_last_pid") /* to write, everybody needs a capability */ && opens(below, O_WRONLY) == 0)
			found = 0;
	}
	closedir(d);
	return found;
}

ATTACK(s1, "write to any file of /sys") { return writable("/sys", 0); }
ATTACK(s2, "write to any file of /proc/sys") { return writable("/proc/sys", 0); }
ATTACK(s3, "write the core pattern") { return opens("/proc/sys/kernel/core_pattern", O_WRONLY); }
ATTACK(s4, "write the path of modprobe") { return opens("/proc/sys/kernel/modprobe", O_WRONLY); }
ATTACK(s5, "write to sysrq-trigger") { return opens("/proc/sysrq-trigger", O_WRONLY); }
ATTACK(s6, "read the kernel's memory") { return opens("/proc/kcore", O_RDONLY); }
ATTACK(s7, "read the kernel's messages") { return opens("/proc/kmsg", O_RDONLY); }
ATTACK(s8, "lower its own oom_score_adj")
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	long r = fd < 0 ? -errno : failed(write(fd, "-1000", 5));
	close(fd);
	return r;
}

// Control groups. The victim's and the host's are not there, its own not to be
// written.
static long move(const char *file)
{
	int fd = open(file, O_WRONLY);
	if (fd < 0)
		return -errno;
	close(fd); // it could have written
	return 0;
}
static const char *groups(void) { return target(control ? "groups-outside" : "groups"); }
ATTACK(c1, "write to cgroup.procs of its own group") { return move(path("%s/cgroup.procs", groups())); }
ATTACK(c2, "write to cgroup.kill") { return move(path("%s/cgroup.kill", groups())); }
ATTACK(c3, "write to cgroup.freeze") { return move(path("%s/cgroup.freeze", groups())); }
ATTACK(c4, "write to cgroup.subtree_control") { return move(path("%s/cgroup.subtree_control", groups())); }
ATTACK(c5, "write to cgroup.threads") { return move(path("%s/cgroup.threads", groups())); }
ATTACK(c6, "make a group below its own")
{
	char *dir = path("%s/planted", groups());
	long r = failed(mkdir(dir, 0755));
	rmdir(dir);
	return r;
}
ATTACK(c7, "write its memory limit") { return move(path("%s/%s", target(control ? "memory-outside" : "memory"), target("memory-limit"))); }
ATTACK(c8, "write to cgroup.procs of the group above") { return move(path("%s/../cgroup.procs", groups())); }
ATTACK(c9, "write to cgroup.procs of the victim's group") { return move(path("%s/cgroup.procs", target("victim-group"))); }
ATTACK(c10, "write a release agent")
{
	long worst = NONE;
	for (int i = 0; i < 4; i++) {
		static const char *v1[] = {"memory", "pids", "cpu,cpuacct", "cpu"};
		static const char *names[] = {"release_agent", "notify_on_release", "tasks", "cgroup.event_control"};
		for (int j = 0; j < 4; j++) {
			if (move(path("/sys/fs/cgroup/%s/%s", v1[i], names[j])) == 0)
				worst = 0;
		}
	}
	return worst;
}

// Devices.
ATTACK(d1, "make a character device") { return failed(mknod("device", S_IFCHR | 0666, makedev(1, 1))); }
ATTACK(d2, "make a block device") { return failed(mknod("device", S_IFBLK | 0666, makedev(253, 0))); }
ATTACK(d3, "open a disk")
{
	static const char *disks[] = {"sda", "vda", "xvda", "nvme0n1", "dm-0", "loop0", "ram0", "sr0"};
	for (size_t i = 0; i < sizeof disks / sizeof *disks; i++)
		if (opens(path("/dev/%s", disks[i]), O_RDONLY) == 0)
			return 0;
	return NONE;
}
ATTACK(d4, "open devices of the kernel")
{
	static const char *devices[] = {"mem", "port", "kmsg", "kvm", "fuse", "loop-control", "net/tun", "userfaultfd", "vhost-net", "vsock", "console", "tty0", "mapper/control", "cpu_dma_latency", "hwrng", "rtc0", "uinput"};
	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
		if (opens(path("/dev/%s", devices[i]), O_RDONLY) == 0)
			return 0;
	return NONE;
}

// Descriptors.
ATTACK(e1, "use descriptors that leaked")
{
	for (int fd = 3; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			return 0; // its own are all closed at execve
	return NONE;
}
ATTACK(e2, "find the daemon's environment in its own") { return getenv("BERTH_ATTACKS_SECRET") ? 0 : NONE; }
