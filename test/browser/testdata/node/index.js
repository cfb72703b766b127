const crypto = require("crypto"), fs = require("fs"), http = require("http");

const server = http.createServer((q, s) => {
  if (q.url === "/who") return s.end(`node for ${q.headers.host}`);
  if (q.url === "/headers") return s.end(JSON.stringify(q.headers));
  if (q.url === "/end") return process.exit(3);
  if (q.url === "/fill") { const kept = []; for (;;) kept.push(Buffer.alloc(8 << 20, 1)); }
  if (q.url === "/length") {
    let n = 0;
    return q.on("data", (part) => { n += part.length; }).on("end", () => s.end(String(n)));
  }
  if (q.url === "/events") {
    s.writeHead(200, {"content-type": "text/event-stream"});
    let n = 0;
    const timer = setInterval(() => s.write(`data: ${n++}\n\n`), 20);
    return q.on("close", () => clearInterval(timer));
  }
  const file = q.url === "/" ? "page.html" : "page.js";
  s.setHeader("content-type", file === "page.js" ? "text/javascript" : "text/html");
  s.end(fs.readFileSync(file));
});

// An echo of short frames, so that no package is needed (RFC 6455).
server.on("upgrade", (q, c) => {
  const sum = crypto.createHash("sha1").update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  c.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${sum}\r\n\r\n`);
  c.on("error", () => {}).on("data", (frame) => {
    const n = frame[1] & 127, out = Buffer.alloc(2 + n);
    out[0] = frame[0];
    out[1] = n;
    for (let i = 0; i < n; i++) out[2 + i] = frame[6 + i] ^ frame[2 + i % 4];
    c.write(out);
    if ((frame[0] & 15) === 8) c.end();
  });
});
server.listen(8080, "0.0.0.0");
