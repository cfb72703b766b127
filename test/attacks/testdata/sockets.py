"""Takes sockets by the ways that give each a port of the host without a bind."""
import errno, os, socket, time


def udp(family):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.connect((far[family], 9))  # sends nothing
    return s


def tcp(family):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.listen()
    return s


def take(make, family, most):
    try:
        while len(held) < most:
            held.append(make(family))
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
    return "enough"


far = dict(zip((socket.AF_INET, socket.AF_INET6), open("far").read().split()))
held = []
most = int(os.environ.get("MOST", "1000000"))
# Each of several processes, for one has but so many descriptors.
for child in range(1, int(os.environ.get("PROCESSES", "4"))):
    if os.fork() == 0:
        break
for make in (udp, tcp):
    for family in (socket.AF_INET, socket.AF_INET6):
        why = take(make, family, most)
ports = {(s.type, s.family, s.getsockname()[1]) for s in held}
os.write(1, b"hoarder: %d %d %s\n" % (len(held), len(ports), why.encode()))  # a line at once, of several that write
time.sleep(600)
