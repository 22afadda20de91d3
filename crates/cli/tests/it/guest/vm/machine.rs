//! One emulated machine: QEMU, and the process that is its vsock's other side.

use std::{
    env,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::world::wait_until;

/// Enough for a kernel, curl and an archive of some 25 MiB.
const MEMORY: &str = "256M";
/// A boot takes 10 to 25 seconds here, where no processor helps; only a failing test waits longer.
const PATIENCE: Duration = Duration::from_secs(150);

pub(super) struct Machine {
    folder: PathBuf,
    memory: PathBuf,
    device: Child,
    emulator: Child,
    keyboard: ChildStdin,
    lines: mpsc::Receiver<String>,
    console: String,
}

/// Where `cargo xtask setup` puts what Debian and crates.io have.
pub(super) fn cache() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap()).join(".cache");
    env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("keyless/guest-vm")
}

impl Machine {
    /// Boots `image`. Its sockets and its memory lie in a new folder.
    pub(super) fn new(folder: &Path, image: &[u8]) -> Self {
        Self::told("", folder, image)
    }

    /// As [`Machine::new`], with more words on the kernel's command line.
    pub(super) fn told(words: &str, folder: &Path, image: &[u8]) -> Self {
        let folder = folder.join("machine");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("image"), image).unwrap();
        let file = |name: &str| folder.join(name).display().to_string();
        let vm = format!("guest-cid=3,socket={},uds-path={}", file("vhost"), file("v.sock"));
        let device = Command::new(cache().join("bin/vhost-device-vsock"))
            .args(["--vm", &vm])
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{error}; `cargo xtask setup` builds it"));
        wait_until("the device's socket is there", || folder.join("vhost").exists());
        // All of the guest's memory is this file; the device's process maps it as well.
        let memory = folder.join("memory");
        let backend = format!(
            "memory-backend-file,id=mem0,mem-path={},size={MEMORY},share=on",
            memory.display()
        );
        let mut emulator = Command::new("qemu-system-x86_64")
            .args(["-M", "q35,memory-backend=mem0", "-accel", "tcg", "-cpu", "max"])
            .args(["-m", MEMORY, "-object", &backend])
            .args(["-chardev", &format!("socket,id=c0,path={}", file("vhost"))])
            .args(["-device", "vhost-user-vsock-pci,chardev=c0"])
            .arg("-kernel")
            .arg(cache().join("vmlinuz"))
            .args(["-initrd", &file("image")])
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 {words}")])
            .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("{error}; `cargo xtask setup` installs it"));
        let keyboard = emulator.stdin.take().unwrap();
        let lines = read_lines(emulator.stdout.take().unwrap());
        Self { folder, memory, device, emulator, keyboard, lines, console: String::new() }
    }

    /// Where the device connects for a guest's connection to port 1025.
    pub(super) fn egress_socket(&self) -> PathBuf {
        self.folder.join("v.sock_1025")
    }

    /// Everything on the console until a line with `text` in it.
    #[track_caller]
    pub(super) fn console_until(&mut self, text: &str) -> String {
        let from = self.console.len();
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("no line with {text:?} came: {}", self.console);
            };
            self.console.push_str(&line);
            if line.contains(text) {
                return self.console[from..].to_owned();
            }
        }
    }

    pub(super) fn type_line(&mut self, line: &str) {
        writeln!(self.keyboard, "{line}").unwrap();
    }

    /// All pages of the guest's memory that were ever written.
    pub(super) fn memory(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut page = [0; 4096];
        let mut file = BufReader::with_capacity(1 << 20, File::open(&self.memory).unwrap());
        while file.read_exact(&mut page).is_ok() {
            if page != [0; 4096] {
                all.extend_from_slice(&page);
            }
        }
        all
    }

    /// Waits until it has ended by itself; gives the whole console.
    pub(super) fn end(mut self) -> String {
        assert!(self.emulator.wait().unwrap().success());
        self.console.extend(self.lines.iter());
        std::mem::take(&mut self.console)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for process in [&mut self.emulator, &mut self.device] {
            // Both fail only when it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
        // The memory is not the agent's side of the test: it has been searched where it matters.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn read_lines(console: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        while console.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}
