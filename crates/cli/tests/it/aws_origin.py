"""AWS, as far as signatures go: every request is verified by botocore's own signer with the real key,
then answered by moto. Prints its port, then one line per request; what is answered goes to $ANSWERS, a line of JSON each."""

import base64
import hashlib
import hmac
import io
import json
import os
import sys
import urllib.parse

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

CERTIFICATE, KEY = sys.argv[1:]
ANSWERS = os.environ["ANSWERS"]
CREDENTIALS = Credentials(os.environ["REAL_ID"], os.environ["REAL_KEY"])


def header(environ, name):
    plain = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
    return environ[plain.get(name, "HTTP_" + name.upper().replace("-", "_"))]


def expected(environ, body):
    """The signature that AWS would make of this request, and the one that it has."""
    url = "https://" + environ["HTTP_HOST"] + environ["REQUEST_URI"]
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    if authorization:
        fields = authorization.removeprefix("AWS4-HMAC-SHA256 ").split(",")
        fields = dict(field.strip().split("=", 1) for field in fields)
        credential, names = fields["Credential"], fields["SignedHeaders"]
        given, date = fields["Signature"], environ["HTTP_X_AMZ_DATE"]
    else:
        parts = urllib.parse.urlsplit(url)
        pairs = [pair for pair in parts.query.split("&")]
        query = dict(urllib.parse.parse_qsl(parts.query))
        credential, names = query["X-Amz-Credential"], query["X-Amz-SignedHeaders"]
        given, date = query["X-Amz-Signature"], query["X-Amz-Date"]
        pairs = [pair for pair in pairs if not pair.startswith("X-Amz-Signature=")]
        url = urllib.parse.urlunsplit(parts._replace(query="&".join(pairs)))
    access_key, _, region, service, _ = credential.split("/")
    assert access_key == CREDENTIALS.access_key, "another access key"
    kind = S3SigV4Auth if service == "s3" else SigV4Auth
    if not authorization:
        kind = S3SigV4QueryAuth
    signer = kind(CREDENTIALS, service, region)
    headers = {name: header(environ, name) for name in names.split(";")}
    request = AWSRequest(environ["REQUEST_METHOD"], url, headers=headers, data=body)
    request.context["timestamp"] = date
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return signer.signature(text, request), given


def check_chunks(environ, seed, body):
    """Each chunk's signature, and the trailers', follows the one before."""
    payload = environ.get("HTTP_X_AMZ_CONTENT_SHA256", "")
    if not payload.startswith("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"):
        return
    fields = environ["HTTP_AUTHORIZATION"].split("Credential=")[1].split(",")[0]
    scope = fields.split("/", 1)[1]
    key = b"AWS4" + CREDENTIALS.secret_key.encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    digest = lambda data: hashlib.sha256(data).hexdigest()

    def follows(kind, last, *digests):
        lines = ["AWS4-HMAC-SHA256-" + kind, environ["HTTP_X_AMZ_DATE"], scope, last, *digests]
        return hmac.digest(key, "\n".join(lines).encode(), "sha256").hex()

    size = None
    while size != 0:
        head, body = body.split(b"\r\n", 1)
        size, signature = head.split(b";chunk-signature=")
        size = int(size, 16)
        seed = follows("PAYLOAD", seed, digest(b""), digest(body[:size]))
        assert seed.encode() == signature, "a chunk's signature does not match"
        body = body[size + 2 :] if size else body
    lines, _, signature = body.partition(b"x-amz-trailer-signature:")
    if payload.endswith("-TRAILER"):
        signature, body = signature.split(b"\r\n", 1)
        ours = follows("TRAILER", seed, digest(lines.replace(b"\r\n", b"\n")))
        assert ours.encode() == signature, "the trailers' signature does not match"
    assert body == b"\r\n", body


def recorded(inner, environ, start_response):
    begun = []
    body = b"".join(inner(environ, lambda status, headers, *_: begun.append((status, headers))))
    status, headers = begun[-1]
    answer = {"status_code": int(status.split()[0]), "headers": dict(headers), "body": base64.b64encode(body).decode()}
    with open(ANSWERS, "a") as file:
        file.write(json.dumps(answer) + "\n")
    start_response(status, headers)
    return [body]


class Verified:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, environ, start_response):
        chunked = environ.get("wsgi.input_terminated", False)
        length = -1 if chunked else int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        try:
            ours, given = expected(environ, body)
            check_chunks(environ, ours, body)
            fault = None if ours == given else "the signature does not match"
        except Exception as error:  # whatever is wrong, the agent is told what
            fault = repr(error)
        line = environ["REQUEST_METHOD"] + " " + environ["REQUEST_URI"].split("?")[0]
        print("good" if fault is None else "BAD " + fault, line, flush=True)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        if fault is None:
            return recorded(self.inner, environ, start_response)
        start_response("403 Forbidden", [("content-type", "text/plain")])
        return [fault.encode()]


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


app = Verified(DomainDispatcherApplication(create_backend_app))
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet, ssl_context=(CERTIFICATE, KEY))
print(server.port, flush=True)
server.serve_forever()
