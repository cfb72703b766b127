"""Makes what is hard to measure, to copy or to end."""
import ctypes, fcntl, os, signal, threading

MB = 1 << 20
trick = open("trick").read()
if trick == "deep":
    for _ in range(600):
        os.mkdir("d", 0o700)
        os.chdir("d")
elif trick == "lease":
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    kept = os.open("kept", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.fcntl(kept, fcntl.F_SETLEASE, fcntl.F_WRLCK)
elif trick == "names":
    with open("name", "wb") as f:
        f.write(os.urandom(MB))
    for n in range(300):
        if not os.path.exists("name%d" % n):
            os.link("name", "name%d" % n)
elif trick == "inodes":
    try:
        for n in range(1000000):
            os.close(os.open("e%d" % n, os.O_CREAT, 0o600))
    except OSError as e:
        print("hoarder:", e, flush=True)
elif trick == "held":
    for n in range(4):
        f = os.open("held", os.O_RDWR | os.O_CREAT, 0o600)
        os.write(f, b"x" * 10 * MB)
        os.unlink("held")
print("hoarder: done", flush=True)
if trick == "held":
    threading.Thread(target=signal.sigwait, args=({signal.SIGUSR1},)).start()
    # The first thread ends, its process does not.
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
signal.pause()
