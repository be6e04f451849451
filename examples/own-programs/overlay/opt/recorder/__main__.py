"""Takes measurements over HTTP and gives them back: python3 /opt/recorder SETTINGS.

POST /series/NAME with a number keeps it, GET /series/NAME lists what was kept, the newest first. GET / is the page,
GET /healthz tells that the database answers.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

from store import Store

VERSION = "1"

# The longest text of a number, in bytes.
LONGEST = 64


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    timeout = 10  # seconds, for a client that says nothing

    def do_GET(self):
        settings, store = self.server.settings, self.server.store
        if self.path == "/":
            self.answer(200, {"title": settings["title"], "version": VERSION, "series": settings["series"]})
        elif self.path == "/healthz":
            store.check()
            self.answer(200, "ok")
        elif self.series() is not None:
            self.answer(200, store.newest(self.series()))
        else:
            self.answer(404, "there is no such page")

    def do_POST(self):
        name = self.series()
        if name is None:
            self.answer(404, "there is no such series")
            return
        try:
            length = min(int(self.headers.get("Content-Length", "0")), LONGEST)
            value = float(self.rfile.read(length))
        except ValueError:
            self.answer(400, "the measurement is not a number")
            return
        self.server.store.keep(name, value)
        self.answer(200, "kept")

    def series(self):
        """The series that is asked for; None where there is no such one."""
        name = self.path.removeprefix("/series/")
        return name if name != self.path and name in self.server.settings["series"] else None

    def answer(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Requests are not in the journal."""


class Server(ThreadingHTTPServer):
    """A server with settings and a store."""

    daemon_threads = True

    def __init__(self, settings, store):
        super().__init__((settings["address"], settings["port"]), Handler)
        self.settings, self.store = settings, store


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = yaml.safe_load(file)
    server = Server(settings, Store("/var/lib/recorder/recorder.db", settings["keep"]))
    print(f"version {VERSION} takes {', '.join(sorted(settings['series']))}", flush=True)
    server.serve_forever()


main()
