//! A person at a terminal, played by a Python script through a pseudo-terminal.

use std::process::{Command, Stdio};

use crate::{invocation::Invocation, world::World};

/// Runs `invocation` at a terminal of its own. `script` has `expect(text)`, `say(text)`,
/// `resize(rows, columns)`, `pause()`, `foreground(program)` and, as its last word, `finish(code=…)` or
/// `finish(signal=…)`. Gives everything that stood on the screen.
#[track_caller]
pub(crate) fn at_a_terminal(world: &World, invocation: Invocation<'_>, script: &str) -> String {
    let inner = invocation.into_command();
    let mut outer = Command::new("python3");
    outer.args(["-c", &format!("{PRELUDE}\n{script}")]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir(world.home.work()).stdin(Stdio::null());
    let output = outer.output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    world.saw("the terminal", &output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n--- screen ---\n{screen}");
    screen
}

/// What is read is passed to stdout at once, so that a failure shows the screen so far.
const PRELUDE: &str = r"
import fcntl, os, pty, select, struct, sys, termios, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
unread = b''
def read(seconds):
    global unread
    if not select.select([terminal], [], [], seconds)[0]:
        return False
    try:
        data = os.read(terminal, 65536)
    except OSError:
        return False
    os.write(1, data)
    unread += data
    return data != b''
def expect(text):
    global unread
    deadline = time.monotonic() + 120
    while text.encode() not in unread:
        if time.monotonic() > deadline:
            sys.exit('waited in vain for ' + repr(text))
        if not read(1) and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if not read(0) and text.encode() not in unread:
                sys.exit('it ended before ' + repr(text))
    unread = unread[unread.index(text.encode()) + len(text.encode()):]
def say(text):
    os.write(terminal, text.encode())
def resize(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
def pause():
    '''Lets a program that was just started come to the foreground.'''
    time.sleep(0.5)
def foreground(name):
    '''Waits until a program of this name, started here, is in the foreground of its terminal.'''
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        parents, found = {}, []
        for process in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{process}/stat') as stat:
                    comm, fields = stat.read().rsplit(') ', 1)
            except OSError:
                continue
            fields = fields.split()
            parents[int(process)] = int(fields[1])
            if comm.split('(', 1)[1] == name and fields[2] == fields[5]:
                found.append(int(process))
        for process in found:
            while process in parents:
                if process == pid:
                    return
                process = parents[process]
        time.sleep(0.02)
    sys.exit('waited in vain for ' + name + ' in the foreground')
def finish(code=None, signal=None):
    while read(60):
        pass
    status = os.waitpid(pid, 0)[1]
    ended = (os.WTERMSIG(status), None) if os.WIFSIGNALED(status) else (None, os.WEXITSTATUS(status))
    if ended != (signal, code):
        sys.exit(f'it ended with signal, code {ended}, not {(signal, code)}')
";
