"""A network of its own: loopback, one address of the open internet on it, and a name server.

Run inside `unshare -Urnm`. Starts the given sidecar in it, sends a CONNECT for each name that the
table on stdin has, and prints what was answered, what was looked up, and who was dialled."""
import base64, fcntl, json, os, socket, struct, subprocess, sys, threading, time

PUBLIC = "93.184.216.34"


def interface(name, request, payload):
    with socket.socket() as handle:
        fcntl.ioctl(handle, request, struct.pack("16s", name.encode()) + payload)


def bring_up(is_ours):
    interface("lo", 0x8914, struct.pack("H14x", 0x49))  # SIOCSIFFLAGS: UP, LOOPBACK, RUNNING
    address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(PUBLIC))
    interface("lo:1", 0x8916, address)  # SIOCSIFADDR
    if not is_ours:
        # An address that this machine has stands for one of the open internet: what can be bound then says nothing.
        with open("/proc/sys/net/ipv4/ip_nonlocal_bind", "w") as knob:
            knob.write("1")


class Names(threading.Thread):
    """Answers A and AAAA from a table: lists of addresses, or a word for what goes wrong."""

    def __init__(self, table):
        super().__init__(daemon=True)
        self.table, self.asked = table, {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))

    def run(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            answer = self.answer(query)
            if answer:
                self.socket.sendto(answer, peer)

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        name, (kind,) = ".".join(labels), struct.unpack(">H", query[at + 1 : at + 3])
        question = query[12 : at + 5]
        entry = self.table.get(name, "nxdomain")
        count = self.asked.setdefault(name, {1: 0, 28: 0})
        count[kind] = count.get(kind, 0) + 1
        if entry == "silence":
            return None
        code = {"nxdomain": 3, "servfail": 2}.get(entry, 0) if isinstance(entry, str) else 0
        records = [] if code else self.records(entry, name, kind, count[kind])
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    def records(self, entry, name, kind, turn):
        if entry == "chain":  # each alias leads to the next, and there are too many of them
            hops = [(f"h{n}.chain.test", f"h{n + 1}.chain.test") for n in range(20)]
            hops[0] = (name, hops[0][1])
            return [self.record(owner, 5, wire(target)) for owner, target in hops]
        if isinstance(entry, dict):  # another answer each time it is asked
            entry = entry["first"] if turn == 1 else entry["then"]
        wanted = socket.AF_INET if kind == 1 else socket.AF_INET6
        addresses = [one for one in entry if (":" in one) == (kind == 28)] if kind in (1, 28) else []
        return [self.record(name, kind, socket.inet_pton(wanted, one)) for one in addresses]

    @staticmethod
    def record(owner, kind, data):
        return wire(owner) + struct.pack(">HHIH", kind, 1, 0, len(data)) + data


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def listen(address, dialled):
    server = socket.create_server((address, 443))

    def accept():
        while True:
            connection, _ = server.accept()
            dialled.append(address)
            connection.close()

    threading.Thread(target=accept, daemon=True).start()


def connect(proxy, credential, target):
    began = time.monotonic()
    with socket.create_connection(proxy) as stream:
        stream.settimeout(120)
        head = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: Basic {credential}\r\n\r\n"
        stream.sendall(head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = stream.recv(4096)
            if not piece:
                break
            answer += piece
    lines = answer.decode().split("\r\n")
    refused = [line.split(": ")[1] for line in lines if line.lower().startswith("x-keyless-refused")]
    said = refused[0] if refused else lines[0].split(" ")[1]
    status = int(lines[0].split(" ")[1])
    return {"said": said, "status": status, "seconds": time.monotonic() - began}


def main():
    asked, sidecar = json.load(sys.stdin), sys.argv[1:]
    bring_up(asked.get("is_ours", False))
    with open("resolv.conf", "w") as file:
        file.write("nameserver 127.0.0.1\n")
    subprocess.run(["mount", "--bind", "resolv.conf", os.path.realpath("/etc/resolv.conf")], check=True)
    dialled = []
    names = Names(asked["names"])
    names.start()
    for address in (PUBLIC, "127.0.0.1"):
        listen(address, dialled)
    process = subprocess.Popen(sidecar, stdout=subprocess.PIPE)
    ready = json.loads(process.stdout.readline())
    host, port = ready["listening"][0].rsplit(":", 1)
    user = ready["proxy_url"].split("//")[1].split("@")[0]
    credential = base64.b64encode(user.encode()).decode()
    answers = {target: connect((host, int(port)), credential, target) for target in asked["targets"]}
    # The kernel connects before the listener hears of it.
    connected = sum(answer["said"] == "200" for answer in answers.values())
    while len(dialled) < connected:
        time.sleep(0.02)
    process.terminate()
    process.wait()
    print(json.dumps({"answers": answers, "asked": names.asked, "dialled": dialled}))


main()
