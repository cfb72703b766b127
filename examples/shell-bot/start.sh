#!/bin/sh
# A program that behaves as a chat bot does: it says who it is, gives a sign of
# life every few seconds, and leaves when it is asked to.

version=1 # change it and commit: the next start prints the new one
echo "shell-bot version $version, pid $$"

trap 'echo "asked to stop: goodbye"; exit 0' TERM INT
tick=0
while :; do
	# In the background, or the trap would wait until the sleep ends.
	sleep 5 &
	wait $!
	tick=$((tick + 1))
	echo "tick $tick"
done
