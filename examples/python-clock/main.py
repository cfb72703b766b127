"""A program that behaves as a chat bot does, without a network and without a package.

It says who it is, does something every few seconds, and leaves when it is asked to.
"""

import os
import platform
import signal
import threading
from datetime import datetime, timezone

NAME = os.environ.get("NAME", "somebody")  # set it on the page "Environment", and restart
SECONDS = 5

stopped = threading.Event()


def stop(number, _frame):
    """Ask the loop to end; a handler should do no more than that."""
    print(f"{signal.Signals(number).name}: goodbye")
    stopped.set()


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"python-clock, Python {platform.python_version()}, pid {os.getpid()}")
    print(f"hello, {NAME}")
    while not stopped.wait(SECONDS):
        print(f"it is {datetime.now(timezone.utc):%H:%M:%S} UTC")


if __name__ == "__main__":
    main()
