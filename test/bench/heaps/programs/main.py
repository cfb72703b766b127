# A program that uses memory in one of several ways.
import json, os, random, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

work, ram, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
MB = 1 << 20
began = time.time()


def text(size):
    return ("x" * size + "y")[:-1]


def member(number):
    return {"id": number, "name": f"member {number}", "roles": [number, number + 1], "joined": time.time()}


def bot():  # members and the last messages of channels, and a message now and then
    members = {i: member(i) for i in range(20000)}
    channels = [[] for _ in range(20)]
    message = {"content": text(1000), "author": member(1), "embeds": [{"fields": [{"name": "a", "value": text(500)}]}]}

    def step():
        channel = random.choice(channels)
        channel.append(json.loads(json.dumps(message)))
        if len(channel) > 200:
            channel.pop(0)
        number = random.randrange(20000)
        members[number] = member(number)

    return step


def cache():  # entries that are replaced, by several threads
    everything = [text(random.randrange(500, 20000)) for _ in range(int(0.42 * ram * MB / 10240))]
    lock = threading.Lock()

    def replace():
        while time.time() - began < seconds:
            made = text(random.randrange(500, 20000))
            with lock:
                everything[random.randrange(len(everything))] = made

    for _ in range(4):
        threading.Thread(target=replace, daemon=True).start()

    def step():
        everything[random.randrange(len(everything))] = text(random.randrange(500, 20000))

    return step


def garbage():  # what nobody keeps
    def step():
        [{"i": i, "value": text(1000)} for i in range(100)]

    return step


def buffers():
    everything = [bytearray(65536) for _ in range(int(0.3 * ram * MB / 65536))]

    def step():
        everything[random.randrange(len(everything))] = bytearray(65536)

    return step


def leak():  # a third of the RAM in a second
    everything = []

    def step():
        if len(everything) * 10240 < (time.time() - began) * ram / 3 * MB:
            everything.append(text(10000))

    return step


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps([{"i": i, "value": text(100)} for i in range(200)]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def web():
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


step, operations = globals()[work](), 0
while time.time() - began < seconds:
    if step is None:
        time.sleep(0.05)
        continue
    step()
    operations += 1
print("operations", operations, flush=True)
os._exit(0)
