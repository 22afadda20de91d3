//! Programs whose arguments are a command: a table.

/// How a program is told what to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapper {
    pub(super) program: &'static str,
    /// Its verbs that run something; it has none when empty.
    pub(super) verbs: &'static [&'static str],
    /// Options with a word of their own.
    pub(super) with_word: &'static [&'static str],
    /// How many words stand before the command.
    pub(super) skipped: usize,
    pub(super) form: Form,
}

/// In what form the command stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Somewhere among its options and names, of which there are too many sorts.
    Anywhere,
    /// What is left joined, as a script.
    Script,
    /// The words that are left.
    Words,
}

const fn words(
    program: &'static str,
    with_word: &'static [&'static str],
    skipped: usize,
) -> Wrapper {
    Wrapper { program, verbs: &[], with_word, skipped, form: Form::Words }
}

const fn verb(
    program: &'static str,
    verbs: &'static [&'static str],
    with_word: &'static [&'static str],
    skipped: usize,
) -> Wrapper {
    Wrapper { program, verbs, with_word, skipped, form: Form::Words }
}

const fn script(
    program: &'static str,
    verbs: &'static [&'static str],
    with_word: &'static [&'static str],
    skipped: usize,
) -> Wrapper {
    Wrapper { program, verbs, with_word, skipped, form: Form::Script }
}

const fn anywhere(program: &'static str, verbs: &'static [&'static str]) -> Wrapper {
    Wrapper { program, verbs, with_word: &[], skipped: 0, form: Form::Anywhere }
}

const CONTAINERS: &[&str] = &["exec", "run", "compose", "debug"];
const PACKAGES: &[&str] = &["exec", "x", "dlx", "run"];

pub(super) const WRAPPERS: &[Wrapper] = &[
    // Of shells.
    words("-", &[], 0),
    words("builtin", &[], 0),
    words("command", &[], 0),
    words("exec", &["-a"], 0),
    words("nocorrect", &[], 0),
    words("noglob", &[], 0),
    words("repeat", &[], 1),
    words("time", &["-f", "-o", "--format", "--output"], 0),
    script("trap", &[], &[], 0),
    script("watch", &[], &["-n", "--interval"], 0),
    // How and as whom a program runs.
    words("busybox", &[], 0),
    words("caffeinate", &["-t", "-w"], 0),
    words("catchsegv", &[], 0),
    words("cgexec", &["-g"], 0),
    words("chronic", &[], 0),
    words("chroot", &[], 1),
    words("chrt", &["-T", "-P", "-D"], 1),
    words("dbus-run-session", &["--config-file"], 0),
    words("doas", &["-u", "-C"], 0),
    words("dumb-init", &["-r", "--rewrite"], 0),
    words("entr", &[], 0),
    words("fakeroot", &["-l", "-s", "-i", "-b"], 0),
    words("faketime", &[], 1),
    words("flock", &["-w", "-E", "--wait", "--timeout", "--conflict-exit-code"], 1),
    words("gosu", &[], 1),
    words("hyperfine", &["-w", "-r", "-m", "-M", "--warmup", "--runs", "-p", "--prepare"], 0),
    words("ionice", &["-c", "-n", "-p", "--class", "--classdata"], 0),
    words("ld.so", &["--library-path", "--preload", "--argv0"], 0),
    words("ltrace", &["-e", "-o", "-s", "-p", "-u", "-a", "-n", "-A", "-l", "-x", "-F", "-D"], 0),
    words("nice", &["-n", "--adjustment"], 0),
    words("nohup", &[], 0),
    words("nsenter", &["-t", "--target", "-S", "-G"], 0),
    words("pkexec", &["--user"], 0),
    words("prlimit", &[], 0),
    words("proxychains", &["-f"], 0),
    words("proxychains4", &["-f"], 0),
    words("rlwrap", &["-f", "-H", "-s", "-C"], 0),
    words("s6-setuidgid", &[], 1),
    words("setpriv", &["--reuid", "--regid", "--groups", "--inh-caps", "--bounding-set"], 0),
    words("setsid", &[], 0),
    words("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    words("strace", &["-e", "-o", "-s", "-p", "-u", "-E", "-a", "-O", "-P", "-S", "-b", "-I"], 0),
    words("su-exec", &[], 1),
    words(
        "sudo",
        &[
            "-u",
            "-g",
            "-h",
            "-p",
            "-C",
            "-r",
            "-t",
            "-U",
            "-D",
            "-T",
            "-R",
            "-a",
            "-c",
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--role",
            "--type",
            "--other-user",
            "--chdir",
            "--chroot",
            "--close-from",
            "--command-timeout",
        ],
        0,
    ),
    words("taskset", &[], 1),
    words("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    words("tini", &["-p", "-e"], 0),
    words("torsocks", &["-u", "-p"], 0),
    words("toybox", &[], 0),
    words("spawn", &[], 0),
    words("unbuffer", &[], 0),
    words("unshare", &["-R", "-w", "-S", "-G", "--root", "--wd", "--setuid", "--setgid"], 0),
    words("valgrind", &[], 0),
    words("winpty", &[], 0),
    words("xvfb-run", &["-s", "-n", "-e", "-f", "-p", "-w", "--server-args", "--server-num"], 0),
    anywhere("bwrap", &[]),
    anywhere("firejail", &[]),
    anywhere("proot", &[]),
    anywhere("systemd-run", &[]),
    // Packages and environments.
    verb("aws-vault", &["exec"], &[], 1),
    verb("bundle", &["exec"], &[], 0),
    words("bunx", &[], 0),
    verb("bun", &["x"], &[], 0),
    verb("chamber", &["exec"], &[], 1),
    verb("conda", &["run"], &["-n", "-p", "--name", "--prefix"], 0),
    verb("direnv", &["exec"], &[], 1),
    verb("dotenvx", &["run"], &["-f"], 0),
    verb("hatch", &["run"], &[], 0),
    anywhere("heroku", &["run"]),
    verb("infisical", &["run"], &[], 0),
    verb("mamba", &["run"], &["-n", "-p"], 0),
    anywhere("mise", &["exec", "x"]),
    verb("npm", &["explore"], &[], 1),
    verb("npm", PACKAGES, &["-p", "--package", "-w"], 0),
    script("nix-shell", &["--run", "--command"], &[], 0),
    words("npx", &["-p", "--package"], 0),
    verb("op", &["run"], &["--env-file", "--account"], 0),
    verb("pdm", &["run"], &[], 0),
    verb("pipenv", &["run"], &[], 0),
    verb("pnpm", PACKAGES, &["-C", "--filter"], 0),
    verb("poetry", &["run"], &["-C", "-P"], 0),
    anywhere("railway", &["run"]),
    verb("rustup", &["run"], &[], 1),
    verb("rye", &["run"], &[], 0),
    verb("sops", &["exec-env"], &[], 1),
    verb("uv", &["run"], &["--with", "-p", "--python", "--env-file"], 0),
    verb("yarn", &["exec", "dlx", "run"], &[], 0),
    // Elsewhere.
    anywhere("docker", CONTAINERS),
    anywhere("docker-compose", CONTAINERS),
    anywhere("k", CONTAINERS),
    anywhere("kubectl", CONTAINERS),
    anywhere("nerdctl", CONTAINERS),
    anywhere("oc", &["exec", "rsh", "debug", "run"]),
    anywhere("podman", CONTAINERS),
    anywhere("wsl", &[]),
    // Of terminals.
    script("screen", &["-dm", "-dmS", "-d"], &["-S"], 0),
    script(
        "tmux",
        &["new", "new-session", "neww", "new-window", "splitw", "split-window", "run", "run-shell"],
        &["-s", "-n", "-c", "-t", "-x", "-y", "-F", "-e"],
        0,
    ),
];
