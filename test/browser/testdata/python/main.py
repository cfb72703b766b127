import base64, hashlib, http.server, time


class Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, text, kind="text/plain"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        self.say(str(len(self.rfile.read(int(self.headers["Content-Length"])))).encode())

    def do_GET(self):
        if self.path == "/who":
            self.say(("python for " + self.headers["Host"]).encode())
        elif self.path == "/events":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for n in range(1000):
                    self.wfile.write(b"data: %d\n\n" % n)
                    time.sleep(0.02)
            except OSError:
                pass
        elif self.path == "/echo":
            self.echo()
        else:
            page = self.path == "/"
            with open("page.html" if page else "page.js", "rb") as f:
                self.say(f.read(), "text/html" if page else "text/javascript")

    # An echo of short frames, so that no package is needed (RFC 6455).
    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            n = head[1] & 127
            mask = self.rfile.read(4)
            body = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(n)))
            self.wfile.write(bytes([head[0], n]) + body)
            if head[0] & 15 == 8:
                return


http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Site).serve_forever()
