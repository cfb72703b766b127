# Fills its tree with what could lead somebody astray who walks it as root, and
# changes it while they do.
import os, signal, socket, threading
outside, victim = open("outside").read(), open("victim").read()
os.makedirs("d"); open("d/f", "w").write("own"); open("plain", "w").write("own")
os.symlink(outside + "/dir", "swap")
for name, to in {
    "to-file": outside + "/file", "to-dir": outside + "/dir", "to-victim": victim, "to-root": "/", "to-itself": "to-itself", "up": "../../berth.db",
    "node_modules": outside + "/dir", "package.json": outside + "/file", ".berth": outside + "/dir", "requirements.txt": outside + "/file",
}.items():
    os.symlink(to, name)
os.mkfifo("fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
deep = os.getcwd()
for i in range(60): os.mkdir("x" * 60); os.chdir("x" * 60)
open("deep", "w").write("own")
os.chdir(deep)
os.mkdir("closed"); open("closed/f", "w").write("own"); os.chmod("closed", 0)
open("odd\nname", "w").write("own"); os.chmod("plain", 0o4777)
for how in (lambda: os.link(outside + "/file", "hard"), lambda: os.link("/etc/passwd", "hard"), lambda: os.link("/usr/bin/env", "hard"), lambda: os.link("to-file", "hard2")):
    try: how()
    except OSError: pass
import ctypes
libc = ctypes.CDLL(None)
def swap():
    while True: libc.renameat2(-100, b"d", -100, b"swap", 2) # RENAME_EXCHANGE
threading.Thread(target=swap, daemon=True).start()
print("planted", flush=True)
signal.pause()
