//! The files that steer name resolution: every name is asked of the funnel, but `localhost`.
//!
//! Other lines of the host's `/etc/hosts` are dropped: their addresses mean something to the host, and
//! the broker, which resolves for the jail, knows them. `nsswitch.conf` keeps its other databases;
//! for hosts only files and DNS remain, since the other modules ask daemons that are out of reach.

use std::fs;
use std::path::{Path, PathBuf};

use crate::linux::orders::Ground;

const RESOLV_CONF: &str = "nameserver 127.0.0.1\noptions edns0\n";

/// Name in the area, the host's file with symlinks resolved, and our text; only for files that exist.
pub(super) fn files(ground: &Ground) -> Vec<(&'static str, PathBuf, String)> {
    let nsswitch = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    let files = [
        ("resolv.conf", "/etc/resolv.conf", RESOLV_CONF.to_owned()),
        ("hosts", "/etc/hosts", hosts(&host_name(ground))),
        ("nsswitch.conf", "/etc/nsswitch.conf", with_plain_hosts(&nsswitch)),
    ];
    files
        .into_iter()
        .filter_map(|(name, path, text)| Some((name, Path::new(path).canonicalize().ok()?, text)))
        .collect()
}

fn host_name(ground: &Ground) -> String {
    match &ground.uts_name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

fn hosts(host_name: &str) -> String {
    let localhost = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
    match host_name {
        "" | "localhost" => localhost.to_owned(),
        name => format!("{localhost}127.0.1.1 {name}\n"),
    }
}

fn with_plain_hosts(nsswitch: &str) -> String {
    let others = nsswitch.lines().filter(|line| !line.trim_start().starts_with("hosts:"));
    let lines: Vec<&str> = others.chain(["hosts: files dns"]).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosts_database_changes() {
        let before = "passwd: files sss\nhosts: files mdns4_minimal [NOTFOUND=return] resolve dns\ngroup: files\n";
        assert_eq!(with_plain_hosts(before), "passwd: files sss\ngroup: files\nhosts: files dns\n");
    }
}
