// The helper is what a child of the daemon executes before it becomes a program: it
// makes the system calls of a plan (../plan.go), one after the other, the last of which
// is mostly execve. It knows nothing of walls, uses no library, allocates nothing and
// looks at no environment. Descriptor 4 is the plan, which the daemon wrote.
//
// The first call that fails ends it with status 127, after its number and its errno are
// written to descriptor 3, a socket of the daemon's. "make bpf" compiles it; Go has the same as Execute (plan.go).

typedef unsigned long word; // 64 bits on every processor that this is compiled for

struct call {
	word nr, args[5];
	unsigned short pass[2]; // these errnos do no harm; ANY is every one
	unsigned short again;   // after this errno the call is made again, for a while
	unsigned short skip;    // so many of the calls behind it are left out after a success
};

struct plan {
	word count;
	const struct call *calls;
};

_Static_assert(sizeof(word) == 8 && sizeof(struct call) == 56 && sizeof(struct plan) == 16, "as in plan.go");

enum {
	ERRORS = 3,
	PLAN = 4,
	ANY = 0xffff,
	TRIES = 400, // with the pause below, two seconds
	REFUSED = 127,
	// Of the kernel (include/uapi), the same on both processors.
	PROT_READ_WRITE = 3,
	MAP_PRIVATE = 2,
	MAP_POPULATE = 0x8000,
	MAP_FIXED_NOREPLACE = 0x100000,
};

static const word ADDRESS = 1UL << 32, SIZE = 1UL << 24; // where the plan's own addresses are

#if defined(__x86_64__)
enum { WRITE = 1, MMAP = 9, NANOSLEEP = 35, EXIT = 231 };

static long kernel(word nr, word a, word b, word c, word d, word e, word f) {
	register word r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
enum { WRITE = 64, MMAP = 222, NANOSLEEP = 101, EXIT = 94 };

static long kernel(word nr, word a, word b, word c, word d, word e, word f) {
	register word x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register word x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return (long)x0;
}
#endif

static void end(int status) {
	for (;;)
		kernel(EXIT, (word)status, 0, 0, 0, 0, 0);
}

static void refuse(int number, long result) {
	int said[2] = {number, (int)-result};

	kernel(WRITE, ERRORS, (word)said, sizeof(said), 0, 0, 0);
	end(REFUSED);
}

static long make(const struct call *c) {
	const struct {
		word seconds, nanoseconds;
	} pause = {0, 5000000};
	long result;

	for (int try = 0;; try++) {
		result = kernel(c->nr, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], 0);
		if (result >= 0 || -result != c->again || try == TRIES)
			return result;
		kernel(NANOSLEEP, (word)&pause, 0, 0, 0, 0, 0);
	}
}

void _start(void) {
	long at = kernel(MMAP, ADDRESS, SIZE, PROT_READ_WRITE, MAP_PRIVATE | MAP_POPULATE | MAP_FIXED_NOREPLACE, PLAN, 0);
	if (at != (long)ADDRESS)
		refuse(-1, at);

	const struct plan *plan = (const struct plan *)ADDRESS;
	for (word i = 0; i < plan->count; i++) {
		const struct call *c = &plan->calls[i];
		long result = make(c);

		if (result >= 0)
			i += c->skip;
		else if (c->pass[0] != ANY && -result != c->pass[0] && -result != c->pass[1])
			refuse((int)i, result);
	}
	end(0);
}
