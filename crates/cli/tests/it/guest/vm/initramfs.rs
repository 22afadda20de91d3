//! A file system in memory, as the kernel unpacks it: busybox, curl and what it loads, the kernel's
//! modules for vsock and nf_tables, `keyless-guest`.
//!
//! An archive in cpio's "newc" form. Source: the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use super::super::binary;

/// In the order in which they need each other. Firecracker's kernels have the first half built in.
pub(super) const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "vsock",
    "vmw_vsock_virtio_transport_common",
    "vmw_vsock_virtio_transport",
    "crc32c_generic",
    "libcrc32c",
    "nfnetlink",
    "nf_defrag_ipv4",
    "nf_defrag_ipv6",
    "nf_conntrack",
    "nf_nat",
    "nf_tables",
    "nft_chain_nat",
    "nft_redir",
];

/// Loads the modules, which a kernel for microVMs has built in, and becomes the guest's init.
const INIT: &str = "#!/bin/sh
export PATH=/bin:/usr/bin
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
exec /bin/keyless-guest -- sh /harness
";

/// The archive, with these files besides.
pub(super) fn with(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file("init", 0o755, INIT.as_bytes());
    archive.copy("bin/busybox", Path::new("/bin/busybox"));
    for applet in ["cat", "env", "insmod", "rm", "sh"] {
        archive.link(&format!("bin/{applet}"), "busybox");
    }
    archive.copy("bin/keyless-guest", &binary::path());
    archive.copy("usr/bin/curl", Path::new("/usr/bin/curl"));
    for library in libraries("/usr/bin/curl") {
        archive.copy(library.trim_start_matches('/'), Path::new(&library));
    }
    // An image's own bundle, which is bound over; what it trusts does not matter here.
    archive.file("etc/ssl/certs/ca-certificates.crt", 0o644, b"");
    archive.file("tmp/nothing", 0o644, b"");
    let modules = super::machine::cache().join("modules");
    let file = |module: &str| modules.join(format!("{module}.ko"));
    // What is not there, the kernel has built in: `cargo xtask setup` takes nothing else for an answer.
    let order: Vec<_> = MODULES.iter().copied().filter(|module| file(module).exists()).collect();
    archive.file("modules/order", 0o644, order.join("\n").as_bytes());
    // The last one is loaded by the test that is about it.
    for module in order.iter().chain(&["vsock_loopback"]) {
        archive.copy(&format!("modules/{module}.ko"), &file(module));
    }
    // Without it the first process has no streams.
    archive.node("dev/console", 5, 1);
    for (name, content) in files {
        archive.file(name, 0o755, content);
    }
    archive.end()
}

/// Every file that the loader maps for `program`.
fn libraries(program: &str) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    number: u32,
}

impl Archive {
    fn copy(&mut self, name: &str, from: &Path) {
        let content = fs::read(from);
        let content = content.unwrap_or_else(|error| {
            panic!("{}: {error}; `cargo xtask setup` puts it there", from.display())
        });
        self.file(name, 0o755, &content);
    }

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.folders_of(name);
        self.entry(name, 0o100_000 | mode, (0, 0), content);
    }

    fn link(&mut self, name: &str, target: &str) {
        self.folders_of(name);
        self.entry(name, 0o120_777, (0, 0), target.as_bytes());
    }

    fn node(&mut self, name: &str, major: u32, minor: u32) {
        self.folders_of(name);
        self.entry(name, 0o020_600, (major, minor), b"");
    }

    fn folders_of(&mut self, name: &str) {
        for (at, _) in name.match_indices('/') {
            let folder = &name[..at];
            if self.folders.insert(folder.to_owned()) {
                self.entry(folder, 0o040_755, (0, 0), b"");
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.number += 1;
        let length = u32::try_from(content.len()).unwrap();
        let name_length = u32::try_from(name.len() + 1).unwrap();
        // inode, mode, user, group, links, time, length, device of the file, device that it is,
        // length of the name, checksum
        let fields =
            [self.number, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, name_length, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), b"");
        self.bytes
    }
}
