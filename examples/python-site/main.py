"""A guestbook on Python's own library: HTTP, and a database in one file.

The database stays when the program is restarted or gets new code.
"""

import html
import os
import signal
import sqlite3
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("PORT", "8080"))  # berth sets it
LONGEST = 500  # characters of an entry
NEWEST = 50  # entries on the page

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Guestbook</title></head>
<body>
<h1>Guestbook</h1>
<form method="post"><label for="text">Say something</label>
<input id="text" name="text" maxlength="%d" required> <button>Write</button></form>
<ul>%s</ul>
</body>
</html>
"""


def database():
    """Open the database; each request has a connection of its own."""
    db = sqlite3.connect("guestbook.db")
    db.execute("CREATE TABLE IF NOT EXISTS entry (text TEXT NOT NULL)")
    return db


class Guestbook(BaseHTTPRequestHandler):
    """One page, which shows the entries and takes new ones."""

    def do_GET(self):
        if self.path != "/":
            self.send_error(404)
            return
        db = database()
        rows = db.execute("SELECT text FROM entry ORDER BY rowid DESC LIMIT ?", (NEWEST,)).fetchall()
        db.close()
        entries = "".join(f"<li>{html.escape(text)}</li>" for (text,) in rows)
        body = (PAGE % (LONGEST, entries)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        length = min(int(self.headers.get("Content-Length") or 0), 8 * LONGEST)
        form = urllib.parse.parse_qs(self.rfile.read(length).decode(errors="replace"))
        text = form.get("text", [""])[0].strip()[:LONGEST]
        if text:
            db = database()
            with db:
                db.execute("INSERT INTO entry VALUES (?)", (text,))
            db.close()
        self.send_response(303)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()


def stop(_number, _frame):
    """A stop sends SIGTERM."""
    print("goodbye")
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    print(f"the guestbook listens on port {PORT}")
    ThreadingHTTPServer(("127.0.0.1", PORT), Guestbook).serve_forever()
