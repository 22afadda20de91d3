//! `cargo xtask setup`: installs what the tests need on a Debian machine that has only Rust.
//!
//! Only what is missing is installed, through apt and cargo, and every command is shown. Nothing is
//! configured; services that Debian starts with a package (nginx) are not needed and may be stopped.

mod vm;

use std::{path::Path, process::Command};

use crate::shell::{Failure, ask, cargo, command, run as call};

/// Something the tests need, and how to see whether it is there.
struct Need {
    what: &'static str,
    package: &'static str,
    check: Check,
}

enum Check {
    /// This file stands here.
    File(&'static str),
    /// Git's own programs include this one.
    GitProgram(&'static str),
    /// `python3` can import this.
    PythonModule(&'static str),
    /// A program of this name is on the PATH.
    Program(&'static str),
}

/// Alphabetical by Debian package.
const NEEDS: &[Need] = &[
    Need { what: "age", package: "age", check: Check::Program("age-keygen") },
    Need { what: "a C compiler", package: "build-essential", check: Check::Program("cc") },
    Need {
        what: "busybox, linked statically",
        package: "busybox-static",
        check: Check::File("/bin/busybox"),
    },
    Need {
        what: "the system's certificates",
        package: "ca-certificates",
        check: Check::File("/etc/ssl/certs/ca-certificates.crt"),
    },
    Need { what: "Chromium", package: "chromium", check: Check::Program("chromium") },
    Need { what: "curl", package: "curl", check: Check::Program("curl") },
    Need { what: "Java", package: "default-jdk-headless", check: Check::Program("javac") },
    Need { what: "a message bus", package: "dbus-daemon", check: Check::Program("dbus-daemon") },
    Need {
        what: "a container registry",
        package: "docker-registry",
        check: Check::Program("docker-registry"),
    },
    Need { what: "fish", package: "fish", check: Check::Program("fish") },
    Need { what: "GitHub's client", package: "gh", check: Check::Program("gh") },
    Need { what: "git", package: "git", check: Check::GitProgram("git-http-backend") },
    Need {
        what: "a keyring for D-Bus",
        package: "gnome-keyring",
        check: Check::Program("gnome-keyring-daemon"),
    },
    Need { what: "gpg", package: "gnupg", check: Check::Program("gpg") },
    Need {
        what: "Go, whose templates are Helm's",
        package: "golang-go",
        check: Check::Program("go"),
    },
    Need { what: "capsh", package: "libcap2-bin", check: Check::Program("/usr/sbin/capsh") },
    Need { what: "certutil", package: "libnss3-tools", check: Check::File("/usr/bin/certutil") },
    Need { what: "secret-tool", package: "libsecret-tools", check: Check::Program("secret-tool") },
    Need { what: "nginx", package: "nginx-light", check: Check::File("/usr/sbin/nginx") },
    Need { what: "node", package: "nodejs", check: Check::Program("node") },
    Need { what: "npm", package: "npm", check: Check::Program("npm") },
    Need { what: "ssh", package: "openssh-client", check: Check::Program("ssh") },
    Need { what: "openssl", package: "openssl", check: Check::Program("openssl") },
    Need { what: "PostgreSQL", package: "postgresql", check: Check::Program("pg_ctlcluster") },
    Need { what: "psql", package: "postgresql-client", check: Check::Program("psql") },
    Need { what: "python3", package: "python3", check: Check::Program("python3") },
    Need { what: "pass", package: "pass", check: Check::Program("pass") },
    Need {
        what: "Python's aiohttp",
        package: "python3-aiohttp",
        check: Check::PythonModule("aiohttp"),
    },
    Need { what: "Python's gRPC", package: "python3-grpcio", check: Check::PythonModule("grpc") },
    Need { what: "Python's httpx", package: "python3-httpx", check: Check::PythonModule("httpx") },
    Need { what: "pip", package: "python3-pip", check: Check::PythonModule("pip") },
    Need {
        what: "Python's requests",
        package: "python3-requests",
        check: Check::PythonModule("requests"),
    },
    Need { what: "strace", package: "strace", check: Check::Program("strace") },
    Need { what: "qemu", package: "qemu-system-x86", check: Check::Program("qemu-system-x86_64") },
    Need { what: "skopeo", package: "skopeo", check: Check::Program("skopeo") },
    Need { what: "systemd-analyze", package: "systemd", check: Check::Program("systemd-analyze") },
    Need { what: "tmux", package: "tmux", check: Check::Program("tmux") },
    Need { what: "setpriv", package: "util-linux", check: Check::Program("setpriv") },
    Need { what: "wget", package: "wget", check: Check::Program("wget") },
    Need { what: "xz", package: "xz-utils", check: Check::Program("xz") },
    Need { what: "zsh", package: "zsh", check: Check::Program("zsh") },
];

/// What Debian does not have, from PyPI: the module, and what pip calls it. Alphabetical.
const PYTHON_MODULES: &[(&str, &str)] = &[
    ("boto3", "boto3"),
    ("jsonschema", "jsonschema"),
    ("mcp", "mcp"),
    ("moto.server", "moto[server]"),
    ("pykeepass", "pykeepass"),
];

/// Whether packages of this Python are a distribution's (PEP 668).
const IS_MANAGED: &str =
    "import os, sysconfig; os.stat(sysconfig.get_path('stdlib') + '/EXTERNALLY-MANAGED')";

/// The oldest Node that the packages below run with, and the one that npm gives where there is none so new.
const OLDEST_NODE: u32 = 20;
const NODE: &str = "node@22";

/// Packages that npm installs for all: alphabetical.
const NPM_PACKAGES: &[&str] = &[
    // What the tests say of these two is of these versions.
    "@bitwarden/cli@2025.6.1",
    "@modelcontextprotocol/conformance@0.1.13",
    "@modelcontextprotocol/sdk",
    "axe-core",
    "pg",
    "playwright-core",
    "typescript",
];

/// Cargo's subcommands that `cargo xtask test` calls.
const SUBCOMMANDS: &[&str] = &["cargo-nextest", "cargo-deny"];

const NOT_ROOT: &str = "neither root nor sudo without a password";

/// Installs what is missing.
pub(crate) fn run() -> Result<(), Failure> {
    let packages: Vec<_> = missing().iter().map(|need| need.package).collect();
    if !packages.is_empty() {
        install_packages(&packages)?;
    }
    // A Python that is not Debian's does not see Debian's modules.
    for need in missing() {
        if let Check::PythonModule(module) = need.check {
            ensure_python_module(module, need.package.trim_start_matches("python3-"))?;
        }
    }
    for (module, name) in PYTHON_MODULES {
        ensure_python_module(module, name)?;
    }
    ensure_node()?;
    NPM_PACKAGES.iter().try_for_each(|package| ensure_npm_package(package))?;
    SUBCOMMANDS.iter().try_for_each(|name| ensure_subcommand(name))?;
    vm::ensure()?;
    check_namespaces()?;
    match missing()[..] {
        [] => {
            println!("    everything is there");
            Ok(())
        }
        [first, ..] => Err(by_hand(&[first.package], first.what)),
    }
}

/// Installs a module from PyPI for all of this machine, unless Python can import it: tests play in homes of their own,
/// where what one user has is not seen.
fn ensure_python_module(module: &'static str, name: &str) -> Result<(), Failure> {
    if Check::PythonModule(module).holds() {
        return Ok(());
    }
    let install = ["-s", "-m", "pip", "install", "--quiet", name];
    if ask("python3", &["-c", IS_MANAGED]).is_none() {
        return call(&mut command("python3", &install));
    }
    // Debian's own Python asks to be told that the system's packages are not its business here. What is too old of them
    // stays, below the newer one: pip can't take away what Debian installed.
    let beside = ["--break-system-packages", "--ignore-installed"];
    let managed = [&["python3"][..], &install, &beside].concat();
    call(&mut as_root(&managed).ok_or_else(|| by_hand(&["python3-pip"], NOT_ROOT))?)
}

/// Whether the tests can make jails: what a jail needs first, asked before half an hour of compiling.
fn check_namespaces() -> Result<(), Failure> {
    let namespaces = [
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--net",
        "--fork",
        "--mount-proc",
        "true",
    ];
    if ask("unshare", &namespaces).is_some() {
        return Ok(());
    }
    Err(Failure::Other(format!(
        "the tests make jails, and this machine makes no namespaces: `unshare {}` fails. In a container: start it with \
         --security-opt seccomp=unconfined --security-opt systempaths=unconfined. Elsewhere `cargo run --release -- doctor` \
         names the setting",
        namespaces.join(" ")
    )))
}

/// Installs a newer Node from npm where it is as old as Debian's: what npm has does not run with it.
fn ensure_node() -> Result<(), Failure> {
    if node_version().is_some_and(|version| version >= OLDEST_NODE) {
        return Ok(());
    }
    install_npm_package(NODE)?;
    match node_version() {
        Some(version) if version >= OLDEST_NODE => Ok(()),
        found => Err(Failure::Other(format!(
            "the tests need Node {OLDEST_NODE} or newer first on the PATH, which has {found:?}; {NODE} is installed now"
        ))),
    }
}

fn node_version() -> Option<u32> {
    ask("node", &["--version"])?.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// Installs a package from npm unless it is there.
fn ensure_npm_package(package: &'static str) -> Result<(), Failure> {
    // Not where it is only there for another one, since Node does not find it then.
    match ask("npm", &["ls", "--global", "--depth=0", package]) {
        Some(_) => Ok(()),
        None => install_npm_package(package),
    }
}

fn install_npm_package(package: &'static str) -> Result<(), Failure> {
    let install = ["npm", "install", "--global", "--silent", package];
    let folder = ask("npm", &["prefix", "--global"]).unwrap_or_default() + "/lib";
    if ask("test", &["-w", &folder]).is_some() {
        return call(&mut command(install[0], &install[1..]));
    }
    call(&mut as_root(&install).ok_or_else(|| by_hand(&["npm"], NOT_ROOT))?)
}

/// Builds a cargo subcommand from crates.io unless it is there.
pub(crate) fn ensure_subcommand(name: &str) -> Result<(), Failure> {
    if is_on_path(name) {
        return Ok(());
    }
    println!("    {name} is missing: building it takes a few minutes, once");
    call(&mut cargo(&["install", "--locked", name]))
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !need.check.holds()).collect()
}

fn install_packages(packages: &[&str]) -> Result<(), Failure> {
    let wanted = packages.join(" ");
    if !Check::Program("apt-get").holds() {
        return Err(by_hand(packages, "this is not Debian"));
    }
    let apt_get = |arguments: &[&str]| {
        let quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        as_root(&[&quiet[..], arguments].concat()).ok_or_else(|| by_hand(packages, NOT_ROOT))
    };
    let mut update = apt_get(&["update", "-qq"])?;
    println!("    missing Debian packages: {wanted}");
    call(&mut update)?;
    let install = [&["install", "--yes", "-qq", "--no-install-recommends"], packages].concat();
    call(&mut apt_get(&install)?)
}

/// These words as root, if they may be: by `sudo` where this user is another.
fn as_root(words: &[&str]) -> Option<Command> {
    if ask("id", &["-u"]).as_deref() == Some("0") {
        return Some(command(words[0], &words[1..]));
    }
    ask("sudo", &["-n", "true"])?;
    Some(command("sudo", &[&["-n"], words].concat()))
}

fn by_hand(packages: &[&str], reason: &str) -> Failure {
    let wanted = packages.join(" ");
    Failure::Other(format!(
        "cannot install what is missing ({reason})\n  install by hand: apt-get install {wanted}"
    ))
}

impl Check {
    fn holds(&self) -> bool {
        match self {
            Self::File(path) => Path::new(path).exists(),
            Self::GitProgram(name) => ask("git", &["--exec-path"])
                .is_some_and(|folder| Path::new(&folder).join(name).exists()),
            Self::PythonModule(name) => {
                ask("python3", &["-s", "-c", &format!("import {name}")]).is_some()
            }
            Self::Program(name) => is_on_path(name),
        }
    }
}

fn is_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_see_what_is_there_and_what_is_not() {
        assert!(Check::Program("sh").holds());
        assert!(!Check::Program("keyless-no-such-program").holds());
        assert!(!Check::File("/keyless/no/such/file").holds());
    }

    #[test]
    fn a_refusal_says_what_to_install_by_hand() {
        let text = by_hand(&["curl", "git"], "this is not Debian").to_string();
        assert!(text.ends_with("install by hand: apt-get install curl git"), "{text}");
    }
}
