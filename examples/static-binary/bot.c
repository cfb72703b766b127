/* A program that behaves as a chat bot does, without a network: it says who it
   is, gives a sign of life every few seconds, and leaves when it is asked to. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define VERSION 1 /* change it, build and commit: the next start prints the new one */

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

int main(void)
{
	struct sigaction action = {.sa_handler = stop};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("static-binary version %d, pid %d\n", VERSION, (int)getpid());
	for (int tick = 1; sleep(5) == 0 && !stopped; tick++)
		printf("tick %d\n", tick);
	puts("asked to stop: goodbye");
	return 0;
}
