# Takes as much as it can get of everything, one after the other.
import os, signal, sys, time
told = open("told", "w")
def say(*words): print("greedy:", *words, file=told, flush=True) # its output is bounded
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# Descriptors.
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e: say("descriptors", len(held), e.errno)
for fd in held: os.close(fd)
# Files in memory.
for place in ("/tmp", "/dev/shm"):
    size, block = 0, b"x" * (1 << 20)
    fd = os.open(place + "/much", os.O_CREAT | os.O_WRONLY)
    try:
        while True: size += os.write(fd, block)
    except OSError as e: say(place, size, e.errno)
    os.close(fd); os.unlink(place + "/much")
    count = 0
    try:
        while True: os.close(os.open("%s/%d" % (place, count), os.O_CREAT)); count += 1
    except OSError as e: say(place, "files", count, e.errno)
    for i in range(count): os.unlink("%s/%d" % (place, i))
# Output.
line = b"flood " + b"x" * 1000 + b"\n"
for i in range(24 << 10): os.write(1, line) # 24 MiB
say("flooded")
# Processes, each of which makes more, whatever it is asked.
count = 1
while True:
    try:
        if os.fork() == 0:
            while True:
                try: os.fork() or os._exit(0) # one after the other: none is long there
                except OSError: time.sleep(0.05)
        count += 1
    except OSError as e: break
say("processes", count, "all")
while True: time.sleep(1)
