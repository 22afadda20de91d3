# Python's own server, whose handlers answer without a look at the body: what is left of it is the next request.
import http.server
import ssl
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        bearer = self.headers.get("Authorization")
        print(self.command, self.path, "with" if bearer else "without", flush=True)
        body = f"seen {self.path}".encode()
        self.send_response(int(self.path.partition("?")[2] or 200))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_DELETE = do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = answer

    def handle_expect_100(self):
        # Its answer comes without a 100.
        return True

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
