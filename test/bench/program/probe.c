/*
 * The program that berth and its peers are measured with. It does what its
 * name says: copied to "idle" it prints a line and waits, "print" writes
 * 200 MB, "send" sends itself datagrams. When it did what, it writes to the
 * file "stamp" in its directory: a word, the real time in nanoseconds, its
 * pid. "print" and "send" wait for a file "gate" there before they begin.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { line = 100, lines = 2000000, block = 64 * 1024, datagrams = 1000000, payload = 64 };

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void stamp(const char *what, long long at)
{
	char text[80];
	int n = snprintf(text, sizeof text, "%s %lld %d\n", what, at, (int)getpid());
	int fd = open("stamp", O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || write(fd, text, n) != n)
		_exit(3);
	close(fd);
}

static void gate(void)
{
	struct timespec step = {0, 2000000};
	while (access("gate", F_OK) != 0)
		nanosleep(&step, NULL);
	stamp("begin", now());
}

/* print formats numbered lines into a large buffer, as loggers do. */
static int print(void)
{
	static char buffer[block], text[line];
	memset(text, 'x', line - sizeof "0000000 ");
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	gate();
	for (int i = 0; i < lines; i++)
		if (printf("%07d %s\n", i, text) != line)
			return 4;
	if (fflush(stdout) != 0)
		return 4;
	stamp("end", now());
	return 0;
}

static int send_self(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	struct timeval patience = {.tv_sec = 5};
	char data[payload] = {0};
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) || getsockname(s, (struct sockaddr *)&a, &size) ||
	    connect(s, (struct sockaddr *)&a, size) || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
		return 5;
	gate();
	for (int i = 0; i < datagrams; i++)
		if (send(s, data, sizeof data, 0) != sizeof data || recv(s, data, sizeof data, 0) != sizeof data)
			return 6;
	stamp("end", now());
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	long long at = now();
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argv[0];
	stamp("start", at);
	if (strcmp(name, "print") == 0)
		return print();
	if (strcmp(name, "send") == 0)
		return send_self();
	if (write(1, "ready\n", 6) != 6)
		return 2;
	for (;;)
		pause();
}
