use std::fs;

use serde_json::json;

use crate::scene::{Scene, User, users};

/// More than the numbers that the kernel keeps for itself.
const PROCESSES: u64 = 400;
const BYTES: u64 = 2 << 20;

fn scene(user: User, command: &[&str]) -> Scene {
    Scene::of(user, command)
        .with("read_only", true)
        .with("own_directories", json!([["/tmp", 0o1777]]))
        .with("bounds", json!([PROCESSES, BYTES]))
}

#[test]
fn processes_run_out_in_the_jail_and_nowhere_else() {
    let bomb = "import os, time\n\
        made = 0\n\
        try:\n    while made < 1000:\n        made += 1\n        os.fork() or time.sleep(600)\n\
        except OSError:\n    print(made - 1)\n";
    let most = || fs::read_to_string("/proc/sys/kernel/pid_max").expect("a number");
    let before = most();
    for user in users() {
        // For root the kernel counts since Linux 6.14.
        if user == User::Caller && rustix::process::getuid().is_root() && !is_since(6, 14) {
            continue;
        }
        let text = scene(user, &["/usr/bin/python3", "-c", bomb]).play().text();
        let made: u64 = text.trim().parse().expect("it came to an end");
        assert!((50..PROCESSES).contains(&made), "{user:?} {made}");
    }
    assert_eq!(most(), before);
}

#[test]
fn memory_by_files_runs_out() {
    let script = format!(
        "fill() {{ head -c {more} /dev/zero > $1/file 2>/dev/null; wc -c < $1/file; rm $1/file; }}; \
         fill /tmp; fill /dev/shm; fill /dev; fill /run/lock; cd /tmp; \
         i=0; while [ $i -lt 2000 ] && true > $i; do i=$((i+1)); done 2>/dev/null; echo $i",
        more = BYTES * 2
    );
    for user in users() {
        let text = scene(user, &["sh", "-c", &script]).play().text();
        let counts: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
        let [own, shared, devices, lock, files] = counts[..] else { panic!("{text}") };
        // The folders' own entries take some of it.
        assert!((BYTES / 2..=BYTES).contains(&own) && lock == own, "{text}");
        assert_eq!((shared, devices), (BYTES / 4, 64 << 10), "{text}");
        assert!((300..BYTES / 4096).contains(&files), "{text}");
    }
}

fn is_since(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}
