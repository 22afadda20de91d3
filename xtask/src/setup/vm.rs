//! What the guest's tests boot: a kernel with its modules out of Debian's package, without installing
//! it, and the process that is the other side of an emulated vsock. Both go to a cache, once.
//!
//! Source: reference/guest-vm.md.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::shell::{Failure, capture, cargo, command, run as call};

/// Depends on the package with the newest kernel.
const KERNEL: &str = "linux-image-amd64";
/// Files below a package's `lib/modules/VERSION/kernel`; the tests load them in their own order, but for those that a
/// kernel has built in.
const MODULES: &[&str] = &[
    "crypto/crc32c_generic.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_ring.ko",
    "lib/libcrc32c.ko",
    "net/ipv4/netfilter/nf_defrag_ipv4.ko",
    "net/ipv6/netfilter/nf_defrag_ipv6.ko",
    "net/netfilter/nf_conntrack.ko",
    "net/netfilter/nf_nat.ko",
    "net/netfilter/nf_tables.ko",
    "net/netfilter/nfnetlink.ko",
    "net/netfilter/nft_chain_nat.ko",
    "net/netfilter/nft_redir.ko",
    "net/vmw_vsock/vmw_vsock_virtio_transport.ko",
    "net/vmw_vsock/vmw_vsock_virtio_transport_common.ko",
    "net/vmw_vsock/vsock.ko",
    "net/vmw_vsock/vsock_loopback.ko",
];
/// The host's side of a vsock, with Firecracker's sockets.
const DEVICE: (&str, &str) = ("vhost-device-vsock", "0.3.0");

/// Puts into the cache what is missing.
pub(super) fn ensure() -> Result<(), Failure> {
    let cache = cache()?;
    // The kernel is written last: where it is, its modules are.
    if !cache.join("vmlinuz").exists() {
        ensure_kernel(&cache)?;
    }
    let (name, version) = DEVICE;
    if !cache.join("bin").join(name).exists() {
        println!("    {name} is missing: building it takes a few minutes, once");
        let root = cache.display().to_string();
        call(&mut cargo(&["install", "--locked", name, "--version", version, "--root", &root]))?;
    }
    Ok(())
}

/// Where the tests look: `~/.cache/keyless/guest-vm`.
fn cache() -> Result<PathBuf, Failure> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let base =
        base.ok_or_else(|| Failure::Other("neither HOME nor XDG_CACHE_HOME is set".into()))?;
    let cache = base.join("keyless/guest-vm");
    fs::create_dir_all(cache.join("modules")).map_err(Failure::file(&cache))?;
    Ok(cache)
}

fn ensure_kernel(cache: &Path) -> Result<(), Failure> {
    let scratch = cache.join("unpacked");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(Failure::file(&scratch))?;
    let package = newest_kernel(&capture(&mut command("apt-cache", &["depends", KERNEL]))?)?;
    call(command("apt-get", &["download", "-qq", &package]).current_dir(&scratch))?;
    let archive = only(&scratch, ".deb")?.display().to_string();
    call(&mut command("dpkg-deb", &["-x", &archive, &scratch.display().to_string()]))?;
    // In `/usr/lib` since Debian 13.
    let folder = ["usr/lib/modules", "lib/modules"].map(|folder| scratch.join(folder));
    let modules = only(folder.iter().find(|folder| folder.exists()).unwrap_or(&folder[1]), "")?;
    let built_in = modules.join("modules.builtin");
    let built_in = fs::read_to_string(&built_in).map_err(Failure::file(&built_in))?;
    for module in MODULES {
        let name = format!("kernel/{module}");
        if !built_in.lines().any(|line| line == name) {
            copy_module(&modules.join(name), &cache.join("modules"))?;
        }
    }
    copy(&only(&scratch.join("boot"), "vmlinuz-")?, &cache.join("vmlinuz"))?;
    fs::remove_dir_all(&scratch).map_err(Failure::file(&scratch))
}

/// As the guest's `insmod` takes it; Debian 13 compresses modules.
fn copy_module(module: &Path, to: &Path) -> Result<(), Failure> {
    let name = module.file_name().expect("each of the table has a name");
    if module.exists() {
        return copy(module, &to.join(name));
    }
    let compressed = module.with_extension("ko.xz");
    call(&mut command("xz", &["--decompress", "--force", &compressed.display().to_string()]))?;
    copy(module, &to.join(name))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(drop).map_err(Failure::file(from))
}

/// `Depends: linux-image-6.1.0-56-amd64`.
fn newest_kernel(depends: &str) -> Result<String, Failure> {
    let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    name.map(str::to_owned).ok_or_else(|| {
        Failure::Other(format!("{KERNEL} is not in Debian's list: run `apt-get update` first"))
    })
}

/// The one entry of a folder with this in its name.
fn only(folder: &Path, part: &str) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(folder).map_err(Failure::file(folder))?;
    let mut found = entries.flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| path.display().to_string().contains(part);
    found
        .find(named)
        .ok_or_else(|| Failure::Other(format!("{}: nothing with {part}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Conflicts: x\n";
        assert_eq!(newest_kernel(text).unwrap(), "linux-image-6.1.0-56-amd64");
        assert!(newest_kernel("").is_err());
    }
}
