//! Programs that pass on or run what they read: tables, and where their scripts stand.

use super::is_shell;

/// Programs that pass on what they read.
pub(in super::super) const FILTERS: &[&str] = &[
    "awk", "column", "cut", "dos2unix", "egrep", "expand", "fgrep", "fmt", "fold", "gawk", "grep",
    "head", "iconv", "less", "mawk", "more", "nl", "paste", "perl", "pv", "rg", "sed", "shuf",
    "sort", "sponge", "strings", "tac", "tail", "unexpand", "uniq",
];
/// Ends of files' names, and what runs these files.
const RUN_BY: &[(&str, &str)] = &[
    ("py", "python"),
    ("js", "node"),
    ("mjs", "node"),
    ("ts", "node"),
    ("rb", "ruby"),
    ("pl", "perl"),
];
/// Options of shells with a word of their own.
const OF_SHELLS: &[&str] = &["--init-file", "--rcfile"];
/// Options of interpreters with a word of their own.
const OF_INTERPRETERS: &[&str] = &["--import", "--input-type", "--loader", "--require", "-W", "-X"];
/// Programs that run what they read, and the option that takes the same as a word.
pub(in super::super) const INTERPRETERS: &[(&str, &str)] = &[
    ("bun", "-e"),
    ("deno", "eval"),
    ("ipython", "-c"),
    ("irb", "-e"),
    ("jshell", "-e"),
    ("node", "-e"),
    ("nodejs", "-e"),
    ("perl", "-e"),
    ("php", "-r"),
    ("pypy", "-c"),
    ("python", "-c"),
    ("ruby", "-e"),
    ("tclsh", "-e"),
    ("tsx", "-e"),
];

/// Where a script stands behind the options of what runs it.
pub(super) fn script_at(program: &str, rest: &[String]) -> usize {
    let is_shell = is_shell(program);
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let is_option = word.starts_with('-') || (is_shell && word.starts_with('+'));
        let is_verb = at == 0 && word == "run" && matches!(program, "bun" | "deno");
        if !(is_option || is_verb) || (word == "-" && !is_shell) {
            break;
        }
        let has_word = if is_shell {
            OF_SHELLS.contains(&word.as_str())
                || (!word.starts_with("--") && word.ends_with(['o', 'O']))
        } else {
            OF_INTERPRETERS.contains(&word.as_str())
        };
        at += 1 + usize::from(has_word);
    }
    at.min(rest.len())
}

/// What runs a file: by its name's end, or by its first line.
pub(super) fn run_by(file: &str, content: &str) -> Option<(&'static str, &'static str)> {
    let end = file.rsplit_once('.').map_or("", |(_, end)| end);
    let named = RUN_BY.iter().filter(|(known, _)| *known == end).map(|(_, name)| *name);
    let line = content.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let asked = line.split(['/', ' ']).map(|part| part.trim_end_matches(digits));
    let mut all = asked.chain(named);
    all.find_map(|name| INTERPRETERS.iter().find(|(known, _)| *known == name).copied())
}
