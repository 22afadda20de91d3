"""Another process of the account, which has hold of a program from its first instruction on.

`hold` opens the program's memory in that moment, lets it go, and looks through what it has opened each time that a line
asks for it; `trace` stays its tracer, and that of the processes that it forks. The rest of the arguments is the program;
a file after `--factor` is what it reads as its factor."""
import ctypes
import json
import os
import signal
import sys

TRACEME, CONT, DETACH, SETOPTIONS = 0, 7, 17, 0x4200
TRACE_FORKS = 2
WALL = 0x40000000
PIECE = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, process, data=0):
    if libc.ptrace(request, process, None, data) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def started(words, factor):
    """The program, stopped before it has done anything."""
    theirs, ours = os.pipe()
    if factor:
        with open(factor) as file:
            os.write(ours, b"passphrase " + file.read().rstrip("\n").encode())
    process = os.fork()
    if process == 0:
        os.dup2(theirs, 0)
        os.dup2(2, 1)
        os.closerange(3, 256)
        ptrace(TRACEME, 0)
        os.execv(words[0], words)
    os.close(ours)
    os.close(theirs)
    _, status = os.waitpid(process, 0)
    assert os.WIFSTOPPED(status), status
    return process


def looked(maps, memory, value):
    """How much could be read of what was opened, and whether the value was in it."""
    size, found = 0, False
    os.lseek(maps, 0, os.SEEK_SET)
    text = b"".join(iter(lambda: os.read(maps, PIECE), b"")).decode()
    for line in text.splitlines():
        span, rights = line.split()[:2]
        at, end = (int(number, 16) for number in span.split("-"))
        before = b""
        while rights.startswith("r") and at < end:
            try:
                piece = os.pread(memory, min(PIECE, end - at), at)
            except (OSError, OverflowError):
                break
            if not piece:
                break
            found |= value in before + piece
            before = piece[-len(value):]
            size, at = size + len(piece), at + len(piece)
    return {"read": size, "found": found}


def hold(process):
    maps = os.open(f"/proc/{process}/maps", os.O_RDONLY)
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    ptrace(DETACH, process)
    print("held", flush=True)
    for line in sys.stdin:
        print(json.dumps(looked(maps, memory, line.strip().encode())), flush=True)


def trace(process):
    ptrace(SETOPTIONS, process, TRACE_FORKS)
    ptrace(CONT, process)
    while True:
        one, status = os.waitpid(-1, WALL)
        if one == process and not os.WIFSTOPPED(status):
            print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)
            return
        if os.WIFSTOPPED(status):
            is_ours = os.WSTOPSIG(status) in (signal.SIGTRAP, signal.SIGSTOP)
            ptrace(CONT, one, 0 if is_ours else os.WSTOPSIG(status))


way, words = sys.argv[1], sys.argv[2:]
factor = None
if words[0] == "--factor":
    factor, words = words[1], words[2:]
{"hold": hold, "trace": trace}[way](started(words, factor))
