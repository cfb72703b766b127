# The victim: it has what others want.
import ctypes, os, signal, socket, sys, threading
token = open("token").read()
key = int(open("key").read())
open("secret", "w").write(token)
for path in ("/tmp/" + token, "/dev/shm/" + token):
    with open(path, "w") as f: f.write("secret"); os.chmod(path, 0o666)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(key, 4096, 0o1666) >= 0
def serve(s):
    while True: s.accept()[0].close()
def local(name):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); threading.Thread(target=serve, args=(s,), daemon=True).start()
local("\0" + token); local("/tmp/" + token + ".sock"); os.chmod("/tmp/" + token + ".sock", 0o777)
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 8080)); s.listen(); threading.Thread(target=serve, args=(s,), daemon=True).start()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("0.0.0.0", 9999))
def echo():
    while True: u.sendto(*u.recvfrom(99))
threading.Thread(target=echo, daemon=True).start()
print("victim:", os.getpid(), os.environ["PORT"], flush=True)
signal.pause()
