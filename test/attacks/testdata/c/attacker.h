// What the files of the attacker in C have in common: see attacker.c.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// What came of an attack: 0 when it did what it should not, minus an error
// number, or one of these.
enum { NONE = 1, SILENT = 2 };

typedef long attempt(void);

// A row of the attacker's table.
void attack(const char *name, attempt *try);

#define ATTACK(id, name)                                                  \
	static long id(void);                                             \
	__attribute__((constructor)) static void add_##id(void)           \
	{                                                                 \
		attack(name, id);                                         \
	}                                                                 \
	static long id(void)

// CALL is an attack that is one system call.
#define CALL(id, name, ...)                                               \
	ATTACK(id, name)                                                  \
	{                                                                 \
		return failed(syscall(__VA_ARGS__));                      \
	}

extern int control; // it runs as root, outside of all walls

// apart gives root mounts and a host name of its own, to change.
void apart(void);

// failed is what a function's result says: -1 is an error.
static inline long failed(long r) { return r < 0 ? -errno : 0; }

const char *target(const char *key); // "" when there is none
int number(const char *key);
char *path(const char *format, ...);
long opens(const char *path, int flags); // 0 or minus an error number
long reads(const char *path);            // the same, and there is something in it
