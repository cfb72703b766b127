"""A program that behaves as a chat bot does, without a network.

It says who it is, gives a sign of life every few seconds, and leaves when it
is asked to.
"""

import os
import platform
import signal
import threading

from berth_greeting import greeting  # from requirements.txt

VERSION = 1  # change it and commit: the next start prints the new one
SECONDS = 5

stopped = threading.Event()


def stop(number, _frame):
    """Ask the loop to end; a handler should do no more than that."""
    print(f"{signal.Signals(number).name}: goodbye")
    stopped.set()


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"python-bot version {VERSION}, Python {platform.python_version()}, pid {os.getpid()}")
    print(greeting("berth"))
    ticks = 0
    while not stopped.wait(SECONDS):
        ticks += 1
        print(f"tick {ticks}")


if __name__ == "__main__":
    main()
