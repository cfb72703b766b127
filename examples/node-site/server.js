// A site on Node.js alone: it counts its visits in a file, which stays when the
// program is restarted or gets new code.

const fs = require('node:fs');
const http = require('node:http');

const FILE = 'visits.txt';
const PORT = process.env.PORT || 8080; // berth sets it

let visits = 0;
try {
  visits = Number(fs.readFileSync(FILE, 'utf8')) || 0;
} catch {
  // It is the first start: there is no file yet.
}

const page = () => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>node-site</title></head>
<body>
<h1>Hello from Node.js ${process.version}</h1>
<p>This page was visited ${visits} times. <a href="/api">The same as JSON</a></p>
</body>
</html>
`;

const server = http.createServer((request, response) => {
  const path = request.url.split('?')[0];
  if (path === '/api') {
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ visits, uptime: Math.round(process.uptime()) }));
    return;
  }
  if (path !== '/') {
    response.statusCode = 404;
    response.end('There is nothing at this address.\n');
    return;
  }
  visits += 1;
  fs.writeFile(FILE, String(visits), (error) => error && console.error('cannot keep the number:', error.message));
  response.setHeader('Content-Type', 'text/html; charset=utf-8');
  response.end(page());
});

server.listen(PORT, '127.0.0.1', () => console.log(`node-site listens on port ${PORT}`));

// A stop sends SIGTERM: requests that are under way get their answer.
process.on('SIGTERM', () => {
  console.log('goodbye');
  server.close(() => process.exit(0));
});
