// The attacker in C: tries each attack in a child of its own and prints what
// came of it, "ok" when the attack was a success. What it attacks is in the file
// targets, one "KEY VALUE" in a line. With arguments it tries only the attacks of
// these names, as root and outside of all walls: so that a denial is known to be
// one, and no mistake of the attacker's.
#include "attacker.h"
#include <stdarg.h>

int control;

static struct {
	const char *name;
	attempt *try;
} attacks[256];
static int count;

void attack(const char *name, attempt *try)
{
	attacks[count].name = name;
	attacks[count++].try = try;
}

static char targets[1 << 14];

const char *target(const char *key)
{
	static char values[8][1024];
	static int next;
	char *value = values[next++ % 8];
	size_t n = strlen(key);
	for (char *line = targets; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (!strncmp(line, key, n) && line[n] == ' ') {
			snprintf(value, sizeof values[0], "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
			return value;
		}
	return "";
}

int number(const char *key) { return atoi(target(key)); }

char *path(const char *format, ...)
{
	static char text[8][4096];
	static int next;
	char *p = text[next++ % 8];
	va_list args;
	va_start(args, format);
	vsnprintf(p, sizeof text[0], format, args);
	va_end(args);
	return p;
}

long opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

long reads(const char *path)
{
	char c;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	long n = read(fd, &c, 1), e = errno;
	close(fd);
	return n < 0 ? -e : n == 0 ? NONE : 0;
}

void apart(void)
{
	if (control && (unshare(CLONE_NEWNS | CLONE_NEWUTS) || mount("", "/", "", MS_REC | MS_PRIVATE, "")))
		_exit(1);
}

// outcome runs one attack in a child and says what came of it.
static const char *outcome(attempt *try)
{
	static char text[64];
	int status, said[2];
	long result = 0;
	if (pipe2(said, O_CLOEXEC))
		return "no pipe";
	pid_t pid = fork();
	if (pid == 0) {
		alarm(60);
		result = try();
		_exit(write(said[1], &result, sizeof result) != sizeof result);
	}
	close(said[1]);
	int got = pid > 0 && read(said[0], &result, sizeof result) == sizeof result;
	close(said[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "no child";
	if (!got) {
		snprintf(text, sizeof text, "status-%d", status);
		return text;
	}
	if (result < 0)
		return strerrorname_np(-result);
	return result == NONE ? "none" : result == SILENT ? "silent" : "ok";
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--euid")) // a copy with a set-uid bit
		return geteuid() != getuid() || geteuid() == 0 ? 77 : 0;
	if (argc == 2 && !strcmp(argv[1], "--capability")) // a copy that has one
		return setuid(0) == 0 ? 77 : 0;
	int fd = open("targets", O_RDONLY);
	if (fd < 0 || read(fd, targets, sizeof targets - 1) < 0)
		return 1;
	close(fd);
	control = argc > 1;
	if (control)
		apart();
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGUSR1, SIG_IGN); // it sends that to everybody
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < count; i++) {
		int wanted = argc == 1;
		for (int j = 1; j < argc; j++)
			wanted |= !strcmp(argv[j], attacks[i].name);
		if (wanted)
			printf("attack: %s: %s\n", attacks[i].name, outcome(attacks[i].try));
	}
	printf("attacks: done\n");
	if (!control && strcmp(target("then"), "end"))
		for (;;)
			pause();
	return 0;
}
