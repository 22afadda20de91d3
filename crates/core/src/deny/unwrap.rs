//! Programs that run other programs: what they run is looked at as well.

use super::views::is_shell;

/// What stands inside a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// A command; its wrapper is worth a look too.
    Also(Vec<String>),
    /// A command; its wrapper does nothing else.
    Instead(Vec<String>),
    /// A script of its own.
    Script(String),
    /// Nothing.
    None,
}

/// Wrappers, those of their options that take a word, and how many words follow before the command.
const WRAPPERS: &[(&str, &[&str], usize)] = &[
    ("builtin", &[], 0),
    ("busybox", &[], 0),
    ("chronic", &[], 0),
    ("command", &[], 0),
    ("doas", &["-u", "-C"], 0),
    ("exec", &["-a"], 0),
    ("flock", &["-w", "-E"], 1),
    ("ionice", &["-c", "-n", "-p"], 0),
    ("nice", &["-n"], 0),
    ("noglob", &[], 0),
    ("nohup", &[], 0),
    ("parallel", &["-j"], 0),
    ("setsid", &[], 0),
    ("stdbuf", &["-i", "-o", "-e"], 0),
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U", "-D"], 0),
    ("time", &["-f", "-o"], 0),
    ("timeout", &["-s", "-k"], 1),
    ("unbuffer", &[], 0),
    ("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"], 0),
];

/// What `words` run.
pub(super) fn inner(words: &[String]) -> Inner {
    let Some((program, rest)) = words.split_first() else { return Inner::None };
    match program.as_str() {
        "env" => of_env(rest),
        "eval" => Inner::Script(rest.join(" ")),
        "watch" => script_after_options(rest, &["-n", "-d"]),
        "find" => of_find(rest),
        shell if is_shell(shell) => of_shell(rest),
        "su" => of_shell(rest),
        // Only asks where a program is.
        "command" if rest.first().is_some_and(|word| word == "-v" || word == "-V") => Inner::None,
        other => match WRAPPERS.iter().find(|(name, ..)| *name == other) {
            Some((_, with_word, skipped)) => {
                let rest = after_options(rest, with_word);
                non_empty(rest.get(*skipped..).unwrap_or_default())
            }
            None => Inner::None,
        },
    }
}

/// `env` with a program only sets variables; without one it shows them all.
fn of_env(rest: &[String]) -> Inner {
    if let Some(at) = rest.iter().position(|word| word == "-S" || word == "--split-string") {
        return Inner::Script(rest[at + 1..].join(" "));
    }
    let rest = after_options(rest, &["-u", "-C"]);
    let rest = &rest[rest.iter().take_while(|word| word.contains('=')).count()..];
    if rest.is_empty() { Inner::None } else { Inner::Instead(rest.to_vec()) }
}

fn of_find(rest: &[String]) -> Inner {
    let begins = ["-exec", "-execdir", "-ok", "-okdir"];
    let Some(at) = rest.iter().position(|word| begins.contains(&word.as_str())) else {
        return Inner::None;
    };
    let command = rest[at + 1..].iter().take_while(|word| !matches!(word.as_str(), ";" | "+"));
    Inner::Also(command.cloned().collect())
}

/// The argument of `-c`, also in `-lc`.
fn of_shell(rest: &[String]) -> Inner {
    let is_c =
        |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    match rest.iter().position(is_c).and_then(|at| rest.get(at + 1)) {
        Some(script) => Inner::Script(script.clone()),
        None => Inner::None,
    }
}

fn script_after_options(rest: &[String], with_word: &[&str]) -> Inner {
    Inner::Script(after_options(rest, with_word).join(" "))
}

/// What is left after options, their words, and assignments.
fn after_options<'a>(words: &'a [String], with_word: &[&str]) -> &'a [String] {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            return &words[at + 1..];
        }
        let is_assignment = word.contains('=') && !word.starts_with(['-', '/', '=']);
        if !word.starts_with('-') && !is_assignment {
            break;
        }
        at += if with_word.contains(&word.as_str()) { 2 } else { 1 };
    }
    words.get(at..).unwrap_or_default()
}

fn non_empty(words: &[String]) -> Inner {
    if words.is_empty() { Inner::None } else { Inner::Also(words.to_vec()) }
}
