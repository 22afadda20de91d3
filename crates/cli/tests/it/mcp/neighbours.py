"""Who has an account on the machine and no more: tries to get at a broker, and says what each try came to."""
import ctypes
import json
import os
import socket
import sys

PID, RUN = int(sys.argv[1]), sys.argv[2]
PTRACE_ATTACH = 16
came = {}


def tried(name, attempt):
    try:
        came[name] = attempt()
    except OSError as error:
        came[name] = f"denied: {error.strerror}"


def read(file):
    with open(f"/proc/{PID}/{file}", "rb") as opened:
        return f"read: {opened.read(1 << 20)!r}"


def memory_by_call():
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(16)

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    ours, theirs = Piece(ctypes.addressof(buffer), 16), Piece(ctypes.addressof(buffer), 16)
    if libc.process_vm_readv(PID, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"read: {buffer.raw!r}"


def trace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, PID, None, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "attached"


def take_descriptor():
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.pidfd_open(PID)
    # pidfd_getfd
    if libc.syscall(438, handle, 3, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "taken"


def converse(name, lines):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(60)
        stream.connect(f"{RUN}/{name}")
        heard = []
        with stream.makefile("rw") as both:
            for line in lines:
                print(json.dumps(line), file=both, flush=True)
                heard.append(both.readline())
        return heard


for file in ("environ", "maps", "smaps", "mem", "auxv", "syscall", "stack", "io"):
    tried(file, lambda: read(file))
tried("fd", lambda: [os.readlink(f"/proc/{PID}/fd/{name}") for name in os.listdir(f"/proc/{PID}/fd")])
tried("root", lambda: os.listdir(f"/proc/{PID}/root"))
tried("readv", memory_by_call)
tried("ptrace", trace)
tried("pidfd", take_descriptor)
tried("agent.sock", lambda: converse("agent.sock", [
    {"call": "open_session", "wanted": "all", "inherited": []},
]))
tried("operator.sock", lambda: converse("operator.sock", [
    {"call": "pending"}, {"call": "standing"}, {"call": "reveal", "path": "team/api/token"},
    {"call": "prove", "proof": "00"},
]))
print(json.dumps(came))
