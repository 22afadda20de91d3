"""A client of the NL Protocol that knows nothing of Keyless: written against the specification, standard library only.

Usage: client.py SCRIPT.json, where SCRIPT is a list of steps. Each step is sent over the transport that it names and its
answer is printed as one line of JSON, in order.
"""
import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timezone

MEDIA_TYPE = "application/nl-protocol+json"
# Where all that is said is kept, a line of JSON for each message and its answer.
SAID = None


class Identity:
    def __init__(self, fields):
        self.uri = fields["agent_uri"]
        self.instance = fields["instance_id"]
        self.credential = fields["credential"]

    def claim(self):
        return {"agent_uri": self.uri, "instance_id": self.instance}


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def envelope(kind, payload):
    return {
        "nl_version": "1.0",
        "message_type": kind,
        "message_id": str(uuid.uuid4()),
        "timestamp": now(),
        "payload": payload,
    }


def note(exchange):
    """Keeps what was said, to be held against the published schemas."""
    if SAID:
        # Whole, whoever else writes there at the same time.
        file = os.open(SAID, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, json.dumps(exchange).encode() + b"\n")
        os.close(file)


def http(base, identity, method, path, body=None, headers=None, text=None):
    """Section 8.3: bare bodies, a bearer credential, the protocol's own media type. A text is sent as it is."""
    data = text.encode() if text is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data=data, method=method)
    request.add_header("Authorization", "Bearer " + identity.credential)
    request.add_header("X-NL-Agent-URI", identity.uri)
    request.add_header("X-NL-Instance-ID", identity.instance)
    if data is not None:
        request.add_header("Content-Type", MEDIA_TYPE)
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=180) as answer:
            status, head, text = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        status, head, text = error.code, error.headers, error.read()
    told = json.loads(text) if text else None
    note({"method": method, "path": path, "sent": body, "told": told})
    return {
        "status": status,
        "type": head.get("Content-Type"),
        "limit": head.get("X-NL-RateLimit-Limit"),
        "remaining": head.get("X-NL-RateLimit-Remaining"),
        "reset": head.get("X-NL-RateLimit-Reset"),
        "retry_after": head.get("Retry-After"),
        "backpressure": head.get("X-NL-Backpressure"),
        "delay": head.get("X-NL-Suggested-Delay-Ms"),
        "allow": head.get("Allow"),
        "request_id": head.get("X-NL-Request-ID"),
        "etag": head.get("ETag"),
        "body": told,
    }


def action_request(identity, action, request_id=None):
    """Section 6.1."""
    return {
        "nl_version": "1.0",
        "request_id": request_id or "req_" + str(uuid.uuid4()),
        "agent": identity.claim(),
        "action": action,
    }


TIMES = {}


def binding_proof(key, token, identity):
    """Chapter 07: an HMAC of the token, the agent and the time, by the key that the token's subject was given."""
    # One proof is good for one message: a second within the same second is made for the next one, which may be off by 30.
    TIMES[token] = max(int(time.time()), TIMES.get(token, 0) + 1)
    at = str(TIMES[token])
    mac = hmac.new(key.encode(), "||".join([token, identity.uri, at]).encode(), hashlib.sha256)
    return at + "." + mac.hexdigest()


class Lines:
    """NDJSON over a pair of streams: answers are found by what they answer."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def call(self, kind, payload):
        message = envelope(kind, payload)
        self.writer.write(json.dumps(message).encode() + b"\n")
        self.writer.flush()
        while True:
            line = self.reader.readline()
            if not line:
                return {"gone": True}
            answer = json.loads(line)
            note({"sent": message, "told": answer})
            if answer["payload"].get("correlation_id") == message["message_id"]:
                return answer

    def raw(self, text):
        """A line of these bytes, each written as the character of its number."""
        self.writer.write(text.encode("latin-1") + b"\n")
        self.writer.flush()
        answer = json.loads(self.reader.readline())
        note({"told": answer})
        return answer


def unix(path, identity):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(180)
    connection.connect(path)
    lines = Lines(connection.makefile("rb"), connection.makefile("wb"))
    hello = dict(identity.claim(), credential=identity.credential)
    return lines, lines.call("handshake", hello)


def stdio(command, identity):
    """Section 8.1: the credential comes by the environment, never by stdin."""
    environment = dict(os.environ)
    environment.update(
        NL_AGENT_URI=identity.uri,
        NL_INSTANCE_ID=identity.instance,
        NL_AGENT_CREDENTIAL=identity.credential,
    )
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    return process, Lines(process.stdout, process.stdin)


# Section 8.3: where HTTP has its messages. What an address does not name goes in the body.
ADDRESSES = {
    "action_request": ("POST", "/nl/v1/actions"),
    "agent_get": ("GET", "/nl/v1/agents/{instance_id}"),
    "agent_register": ("POST", "/nl/v1/agents/register"),
    "audit_query": ("GET", "/nl/v1/audit?target={target}&page_size={page_size}"),
    "delegation_request": ("POST", "/nl/v1/delegations"),
    "delegation_revoke": ("DELETE", "/nl/v1/delegations/{token_id}"),
    "revocation_request": ("POST", "/nl/v1/revocations"),
    "rotation_notification": ("GET", "/nl/v1/rotations?since={since}"),
    "x_keyless_accept_delegation": ("POST", "/nl/v1/delegations/{token_id}/accept"),
    "x_keyless_rotate_credential": ("POST", "/nl/v1/agents/{instance_id}/credential"),
}


# What each agent was given for the tokens that are for it.
KEYS = {}


class Door:
    """One message and its answer's payload, whatever carries them."""

    def __init__(self, script, over, identity):
        self.base, self.identity, self.process = script["base"], identity, None
        if over == "unix":
            self.lines, _ = unix(script["socket"], identity)
        elif over == "stdio":
            self.process, self.lines = stdio(script["stdio"], identity)
        else:
            self.lines = None

    def send(self, kind, payload):
        if self.lines:
            return self.lines.call(kind, payload)["payload"]
        method, path = ADDRESSES[kind]
        body = dict(payload, nl_version="1.0") if method == "POST" else None
        return http(self.base, self.identity, method, path.format(**payload), body)["body"]

    def act(self, step):
        payload = action_request(self.identity, step["action"], step.get("request_id"))
        if "delegation" in step:
            payload["delegation"] = self.proven(dict(step["delegation"]))
        answer = self.send("action_request", payload)
        # What an eavesdropper would try again.
        return [answer, payload.get("delegation", {}).get("binding_proof")] if step.get("tell_proof") else answer

    def proven(self, shown):
        """A token, and a proof of its own unless the step brings one or wants none."""
        if "binding_proof" not in shown and not shown.pop("unproven", False):
            token = shown["token_id"]
            place = (self.identity.instance, token)
            if place not in KEYS:
                accepted = self.send("x_keyless_accept_delegation", {"token_id": token})
                # To whom it is not for, it is not there.
                KEYS[place] = accepted.get("token_binding_key", "guessed")
            shown["binding_proof"] = binding_proof(KEYS[place], token, self.identity)
        return shown

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait(timeout=180)


def main():
    global SAID
    script = json.loads(open(sys.argv[1]).read())
    SAID = script.get("said")
    agents = {name: Identity(fields) for name, fields in script["agents"].items()}
    base, answers = script["base"], []
    for step in script["steps"]:
        identity = agents[step.get("as", "agent")]
        if "door" in step:
            door = Door(script, step["door"], identity)
            if "action" in step:
                answers.append(door.act(step))
            else:
                kind, payload = step["send"]
                if "delegation" in step:
                    payload["delegation"] = door.proven(dict(step["delegation"]))
                answers.append(door.send(kind, payload))
            door.close()
        elif step["over"] == "http":
            if "action" in step:
                body = action_request(identity, step["action"], step.get("request_id"))
                answers.append(http(base, identity, "POST", "/nl/v1/actions", body, step.get("headers")))
            else:
                answers.append(
                    http(
                        base, identity, step["method"], step["path"], step.get("body"), step.get("headers"), step.get("text")
                    )
                )
        elif step["over"] == "unix":
            lines, hello = unix(script["socket"], identity)
            got = [hello]
            for text in step.get("raw", []):
                got.append(lines.raw(text))
            for kind, payload in step["messages"]:
                got.append(lines.call(kind, payload))
            answers.append(got)
        elif step["over"] == "stdio":
            process, lines = stdio(script["stdio"], identity)
            got = [lines.raw(text) for text in step.get("raw", [])]
            got += [lines.call(kind, payload) for kind, payload in step["messages"]]
            process.stdin.close()
            process.wait(timeout=180)
            answers.append(got)
    print(json.dumps(answers))


main()
