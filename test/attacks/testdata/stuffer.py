"""Leaves as much as it can in the buffers of its own sockets."""
import os, socket, time

l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
l.bind(("127.0.0.1", 0))
l.listen(512)
pairs, left = [], 0
piece = bytes(64 << 10)
try:
    for i in range(200):
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 20)
        c.connect(l.getsockname())
        s, _ = l.accept()
        pairs.append((c, s))
        c.setblocking(False)
    for again in range(5):
        for c, s in pairs:
            try:
                while True:
                    left += c.send(piece)
            except BlockingIOError:
                pass
        time.sleep(0.2)
except OSError as e:
    print("stuffer: stopped by", e, flush=True)
print("stuffer: left %d" % left, flush=True)
time.sleep(600)
