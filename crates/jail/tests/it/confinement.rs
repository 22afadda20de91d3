use crate::scene::{Scene, User, users};

#[test]
fn no_privilege_is_left() {
    for user in users() {
        let text =
            Scene::script(user, "grep -E 'Cap|NoNewPrivs|Seccomp' /proc/self/status").play().text();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).expect(name);
            line.split_whitespace().nth(1).expect("a value").to_owned()
        };
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(value(set), "0000000000000000", "{set}");
        }
        assert_eq!((value("NoNewPrivs"), value("Seccomp")), ("1".into(), "2".into()));
        // Each program more would be compiled for every jail.
        assert_eq!(value("Seccomp_filters"), "1");
    }
}

/// Each must fail, whoever tries.
#[test]
fn the_mounts_cannot_be_undone() {
    let attempts = [
        "umount /run",
        "umount -l /run/keyless",
        "umount /proc",
        "umount /etc/hosts",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /sys",
        "mount --bind / /mnt",
        "unshare -U true",
        "unshare -Urm umount -l /run",
        "unshare -m true",
        "nsenter -t 1 -m true",
        "chroot / true",
        "mknod /var/tmp/keyless-disk b 254 0",
        "echo x > /run/keyless/hosts",
        "echo x > /etc/hosts",
        "rm /run/keyless/hosts",
        "mv /run/keyless /run/other",
        "mv /run /other",
    ];
    fails(&attempts);
}

#[test]
fn the_kernel_is_out_of_reach() {
    let attempts = [
        "echo x > /proc/sys/kernel/core_pattern",
        "echo x > /proc/sysrq-trigger",
        "grep -q . /proc/keys",
        "grep -q . /proc/kmsg",
        "grep -q . /proc/kallsyms",
        "mkdir /sys/fs/cgroup/escape",
        "echo 1 > /sys/kernel/mm/ksm/run",
        "dmesg",
        "date -s @0",
        "grep -qa . /proc/1/environ",
        "readlink /proc/1/exe",
        "ls /proc/1/root/",
        "cat /proc/1/mem",
        "kill -9 1; sleep 0.2; false",
        "ip link add dummy0 type dummy",
        "ip link set lo down",
        "ip route del local default dev lo table local",
        "nft flush ruleset",
        "python3 -c 'import socket; socket.socket(17, 3)'",
    ];
    fails(&attempts);
}

fn fails(attempts: &[&str]) {
    for user in users() {
        for attempt in attempts {
            let outcome = Scene::of(user, &["sh", "-c", attempt]).play();
            let errors = outcome.errors();
            assert!(
                outcome.status() != 0 && !errors.contains("jail-probe:"),
                "{user:?}: {attempt}: {errors}"
            );
        }
    }
}

/// Number, arguments, expected errno (1 is EPERM, 38 ENOSYS), by x86-64's numbers.
#[cfg(target_arch = "x86_64")]
#[test]
fn refused_system_calls_say_so() {
    let script = r"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(number, *[ctypes.c_long(a) for a in arguments])
    return ctypes.get_errno()
print(dict(
    bpf=call(321, 0, 0, 0), keyctl=call(250, 0, 0), io_uring=call(425, 1, 0), clone3=call(435, 0, 0),
    newuser=call(272, 0x10000000), newuser_high=call(272, 0x7fff000010000000), attach=call(101, 16, 1, 0, 0),
    seize=call(101, 0x4206, 1, 0, 0), vsock=call(41, 40, 1, 0), packet=call(41, 17, 3, 0), alg=call(41, 38, 5, 0),
    netfilter=call(41, 16, 3, 12), route=call(41, 16, 3, 0), sti=call(16, 0, 0x5412, 0), sti_high=call(16, 0, 0x100005412, 0),
    linux=call(16, 0, 0x541c, 0), x32=call(0x40000000 + 20, 0, 0, 0), persona=call(135, 0xffffffff), odd_persona=call(135, 0x0400000),
    handle=call(304, 0, 0, 0), setns=call(308, 0, 0), kexec=call(246, 0, 0, 0, 0), pidfd_getfd=call(438, 0, 0, 0),
))";
    let expected = "{'bpf': 1, 'keyctl': 1, 'io_uring': 1, 'clone3': 38, 'newuser': 1, 'newuser_high': 1, 'attach': 1, \
        'seize': 1, 'vsock': 1, 'packet': 1, 'alg': 1, 'netfilter': 1, 'route': 0, 'sti': 1, 'sti_high': 1, \
        'linux': 1, 'x32': 38, 'persona': 0, 'odd_persona': 1, 'handle': 1, 'setns': 1, 'kexec': 1, 'pidfd_getfd': 1}\n";
    for user in users() {
        assert_eq!(Scene::of(user, &["/usr/bin/python3", "-c", script]).play().text(), expected);
    }
}

#[test]
fn no_descriptor_of_the_callers_is_inherited() {
    let text = Scene::script(User::Caller, "ls /proc/self/fd").play().text();
    // 3 is the folder that ls reads.
    assert_eq!(text, "0\n1\n2\n3\n");
}
