"""Says on stdout what it was asked with; takes its time for /slow."""
import http.server, time


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        key = self.headers.get("X-Key")
        if key:
            print(self.path, key, flush=True)
        if self.path == "/slow":
            time.sleep(2)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path}: {key}\n".encode())

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Origin).serve_forever()
