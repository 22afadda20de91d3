"""A receiver of notifications, by the specification alone: it checks who sends them, fails twice, and keeps the rest.

Usage: receiver.py KEY FILE. Prints its port; writes one line of JSON for each message that it takes.
"""
import hashlib
import hmac
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY, FILE = sys.argv[1].encode(), sys.argv[2]
failures = 2


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        global failures
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if failures > 0:
            failures -= 1
            self.send_response(503)
        else:
            expected = "sha256=" + hmac.new(KEY, body, hashlib.sha256).hexdigest()
            is_signed = hmac.compare_digest(expected, self.headers["X-NL-Signature"])
            line = {"is_signed": is_signed, "path": self.path, "message": json.loads(body)}
            with open(FILE, "a") as file:
                file.write(json.dumps(line) + "\n")
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
