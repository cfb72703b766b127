"""A server that has many visitors at once, and a client that is never still."""
import os, socket

n = 0
for i in range(6000):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((open("far").read().split()[0], 9))  # sends nothing
    s.close()
    n += 1
print("host: made", n, flush=True)
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("0.0.0.0", 8080))
l.listen(1024)
print("host: port", os.environ["PORT"], flush=True)
held = []
while True:
    s, _ = l.accept()
    s.sendall(b"hello\n")
    held.append(s)
    if len(held) % 500 == 0:
        print("host: visitors", len(held), flush=True)
