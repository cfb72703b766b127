# What programs in Python do, and must be able to.
import asyncio, ctypes, errno, mmap, multiprocessing, os, pwd, select, signal, socket, ssl, subprocess, sys, tempfile, threading, time, urllib.request
from multiprocessing import shared_memory
site, peer4, peer6 = "site.berth.test", "10.77.0.2", "fd77::2"
def works(name):
    def run(f):
        try: said = f()
        except BaseException as e: said = "%s: %s" % (type(e).__name__, e)
        print("works: %s: %s" % (name, "ok" if said is None else said), flush=True)
    return run
def talk(s):
    with s:
        s.settimeout(10); s.sendall(b"hello"); assert s.recv(5) == b"hello"

@works("names by the stub")
def _(): assert {a[4][0] for a in socket.getaddrinfo(site, 443, type=socket.SOCK_STREAM)} == {peer4, peer6}
@works("names by a server elsewhere")
def _(): assert socket.gethostbyname("far.berth.test") == peer4
@works("a name that is not")
def _():
    try: socket.gethostbyname("no.berth.test")
    except socket.gaierror as e: assert e.errno in (socket.EAI_NONAME, socket.EAI_NODATA), e
    else: assert False
@works("itself by name")
def _(): assert socket.gethostbyname("localhost") == "127.0.0.1" and socket.gethostbyname(socket.gethostname())
@works("TCP")
def _(): talk(socket.create_connection((peer4, 7), 10))
@works("TCP by IPv6")
def _(): talk(socket.create_connection((peer6, 7), 10))
@works("UDP")
def _():
    for family, to in (socket.AF_INET, peer4), (socket.AF_INET6, peer6):
        s = socket.socket(family, socket.SOCK_DGRAM); s.connect((to, 7)); talk(s)
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.settimeout(10); s.sendto(b"x", (to, 7)); assert s.recvfrom(9)[1][0] == to
@works("HTTP")
def _(): assert urllib.request.urlopen("http://%s/" % site, timeout=20).read() == b"hello of " + site.encode()
@works("TLS")
def _(): assert urllib.request.urlopen("https://%s/" % site, timeout=20, context=ssl.create_default_context(cafile="ca.pem")).read().startswith(b"hello")
@works("TLS tells a stranger")
def _():
    try: urllib.request.urlopen("https://%s/" % site, timeout=20)
    except urllib.error.URLError as e: assert "certificate verify failed" in str(e), e
    else: assert False
@works("files")
def _():
    for place in (".", "/tmp", "/dev/shm", os.environ["HOME"], os.environ["TMPDIR"]):
        path = os.path.join(place, "written")
        with open(path, "w+b") as f: f.write(b"x" * 100000); f.flush(); os.fsync(f.fileno()); assert os.fstat(f.fileno()).st_size == 100000
        os.rename(path, path + "2"); os.symlink(path + "2", path); os.link(path + "2", path + "3"); os.chmod(path, 0o755); os.unlink(path); os.unlink(path + "2"); os.unlink(path + "3")
    with tempfile.NamedTemporaryFile() as f: f.write(b"x")
@works("child processes")
def _(): assert subprocess.check_output(["sh", "-c", "echo $((6 * 7)) | cat; ls / >/dev/null"]) == b"42\n"
@works("signals to children")
def _():
    p = subprocess.Popen(["sleep", "1000"]); p.terminate(); assert p.wait(20) == -signal.SIGTERM
@works("threads")
def _():
    got = []; ts = [threading.Thread(target=got.append, args=(i,)) for i in range(20)]
    for t in ts: t.start()
    for t in ts: t.join()
    assert sorted(got) == list(range(20))
@works("shared memory")
def _():
    m = shared_memory.SharedMemory(create=True, size=4096)
    def child(): m.buf[0] = 7
    p = multiprocessing.get_context("fork").Process(target=child); p.start(); p.join(); assert m.buf[0] == 7
    m.close(); m.unlink()
@works("System V memory and semaphores")
def _():
    libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p
    i = libc.shmget(0, 4096, 0o1600); assert i >= 0; assert libc.shmat(i, None, 0) not in (None, 2 ** 64 - 1); assert libc.shmctl(i, 0, None) == 0
    i = libc.semget(0, 1, 0o1600); assert i >= 0; assert libc.semctl(i, 0, 0) == 0
    with multiprocessing.get_context("fork").Lock(): pass
@works("timers")
def _():
    hits = []; signal.signal(signal.SIGALRM, lambda *a: hits.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    end = time.monotonic() + 20
    while len(hits) < 3 and time.monotonic() < end: signal.pause()
    signal.setitimer(signal.ITIMER_REAL, 0); assert len(hits) >= 3
@works("memory that can be run")
def _(): mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
@works("pipes and polls")
def _():
    r, w = os.pipe(); e = select.epoll(); e.register(r, select.EPOLLIN); os.write(w, b"x"); assert e.poll(10); e.close()
@works("local sockets of its own")
def _():
    for name in ("own.sock", "\0own", "/tmp/own.sock"):
        with socket.socket(socket.AF_UNIX) as l, socket.socket(socket.AF_UNIX) as c:
            l.bind(name); l.listen(); c.connect(name); a, _ = l.accept(); a.send(b"x"); assert c.recv(1) == b"x"; a.close()
@works("its user")
def _(): assert pwd.getpwuid(os.getuid()).pw_dir == os.environ["HOME"] == os.getcwd()
@works("its limit")
def _():
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path): assert int(open(path).read()) == 128 << 20; return
    assert False, "is not to be seen"
@works("ports of its own")
def _():
    for family, host in (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1"):
        for port in (0, 3000, 5432):
            with socket.socket(family) as l:
                l.bind((host, port)); l.listen(); talked = socket.create_connection(l.getsockname()[:2], 10); a, _ = l.accept(); a.send(b"x"); assert talked.recv(1) == b"x"; a.close(); talked.close()
@works("workers that share a port")
def _():
    held = []
    for _ in range(3):
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); s.bind(("0.0.0.0", 3001)); s.listen(); held.append(s)
    with socket.create_connection(("127.0.0.1", 3001), 10): assert select.select(held, [], [], 10)[0]
    for s in held: s.close()

async def serve():
    async def hello(r, w):
        await r.readuntil(b"\r\n\r\n"); w.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"); await w.drain(); w.close()
    await asyncio.start_server(hello, ["0.0.0.0", "::"], 8080)
    said = []
    for host in ("127.0.0.1", "[::1]", "localhost"):
        said.append(await asyncio.to_thread(lambda: urllib.request.urlopen("http://%s:8080/" % host, timeout=20).read()))
    print("works: an asyncio server of both families: " + ("ok" if said == [b"hello"] * 3 else str(said)), flush=True)
    print("works: done", os.environ["PORT"], flush=True)
    await asyncio.Event().wait()
asyncio.run(serve())
