"""Your bot."""

import os
import signal
import sys

# The variables of the page "Environment" are in os.environ.
token = os.environ.get("TOKEN")
if not token:
    sys.exit('TOKEN is not set: set it on the page "Environment", then start the bot.')

# Packages are installed when they are named in a file requirements.txt, for example
#   discord.py
# and the file is deployed with a new version.

print("The bot is running.")
signal.sigwait([signal.SIGTERM, signal.SIGINT])  # it stays until it is stopped
print("The bot stops.")
