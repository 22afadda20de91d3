//! Words that are written to, or of which nothing is shown but names and counts.

use std::sync::LazyLock;

use regex::Regex;

use super::{Its, option};

/// Programs that take variables from a file of `--env-file`; to others it is a word like any.
const WITH_ENV_FILE: &[&str] = &[
    "act",
    "bun",
    "cargo",
    "deno",
    "docker",
    "docker-compose",
    "dotenvx",
    "flask",
    "go",
    "infisical",
    "nerdctl",
    "node",
    "nodejs",
    "npm",
    "npx",
    "op",
    "pnpm",
    "podman",
    "tsx",
    "uv",
    "uvicorn",
    "uvx",
    "yarn",
];
/// Options of `grep` that show nothing but what `-o` found.
const ONLY_FOUND: &[&str] = &["-o", "-E", "-h", "-H", "-i", "-n", "-s"];

/// Long options of `grep` without a word.
const FLAGS: &[&str] = &[
    "color",
    "extended-regexp",
    "fixed-strings",
    "ignore-case",
    "invert-match",
    "recursive",
    "word-regexp",
];

/// Takes in which words of a command are written to or shown in part.
pub(super) fn written_by(name: &str, words: &[String], found: &mut Vec<usize>) {
    let end = options_end(words);
    let plain = |at: &usize| *at > end || !words[*at].starts_with('-');
    let mut arguments = (1..words.len()).filter(plain);
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_python = name.starts_with("python");
    let is_grep = matches!(name, "grep" | "egrep" | "fgrep");
    let counts = is_grep.then(|| counts_only(&words[..end])).flatten();
    match name {
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp"
            if !words.iter().any(|word| names_target(word)) && arguments.clone().count() > 1 =>
        {
            // Behind an option it may be that one's word, such as a list of files.
            let may_be_target = |at: &usize| *at > end || !words[*at - 1].starts_with('-');
            found.extend(arguments.next_back().filter(may_be_target));
        }
        "tee" => found.extend(arguments),
        _ if counts.is_some() => {
            let is_before = counts == Some(Stands::Before);
            let is_option = |at: &usize| words[*at].starts_with('-');
            found.extend((1..words.len()).filter(|at| is_before || is_option(at)));
        }
        "cut" => {
            let is_known = |word: &&str| !word.starts_with('-') || ["-d=", "-f1"].contains(word);
            let has_both = texts.contains(&"-d=") && texts.contains(&"-f1");
            if has_both && texts.iter().all(is_known) {
                found.extend(arguments);
            }
        }
        "awk" | "gawk" | "mawk" => {
            // Further options and assignments may change what a field is.
            if let ["-F=", "{print $1}", files @ ..] = &texts[1..]
                && !files.iter().any(|file| file.starts_with('-') || file.contains('='))
            {
                found.extend(arguments);
            }
        }
        "grep" => {
            let is_known = |word: &&str| !word.starts_with('-') || ONLY_FOUND.contains(word);
            let pattern = arguments.next();
            let options = &texts[..pattern.unwrap_or(0)];
            if options.contains(&"-o")
                && texts.iter().all(is_known)
                && matches!(pattern.map(|at| texts[at]), Some("^[A-Z_]*=" | "^[^=]*="))
            {
                found.extend(arguments);
            }
        }
        "sed" => edited_by(words, found),
        _ if is_python => match &texts[1..] {
            ["-m", "dotenv", "set", ..] | ["-m", "dotenv", "-f", _, "set", ..] => {
                found.extend(arguments);
            }
            _ => {}
        },
        _ => {}
    }
    let writes = is_python || matches!(name, "node" | "npx" | "go" | "cargo");
    let outputs: &[&'static str] = if writes { &["--out", "--output"] } else { &[] };
    let settings: &[&'static str] =
        if is_python || WITH_ENV_FILE.contains(&name) { &["--env-file"] } else { &[] };
    for (at, word) in words[..end].iter().enumerate().skip(1) {
        match option(word, &[outputs, settings], "") {
            Some((_, Its::Own)) => found.push(at),
            Some((_, Its::Next)) if at + 1 < words.len() => found.push(at + 1),
            Some((_, Its::Next)) | None => {}
        }
    }
    if name == "jq" {
        given_to_jq(words, found);
    }
}

/// Where the options end: at `--`, or with the words.
fn options_end(words: &[String]) -> usize {
    words.iter().position(|word| word == "--").unwrap_or(words.len())
}

/// Whether an option names the folder that is written to, so that the last word is a file that is read.
fn names_target(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            !name.is_empty() && "target-directory".starts_with(name)
        }
        None => word.starts_with('-') && word.contains('t'),
    }
}

/// Where an option stands: behind the first operand it may be a file, with `POSIXLY_CORRECT`.
#[derive(PartialEq, Eq)]
enum Stands {
    Before,
    Behind,
}

/// The option for which `grep` shows only names and counts: one of these letters, before any that has a word.
fn counts_only(words: &[String]) -> Option<Stands> {
    let (mut at, mut place) = (1, Stands::Before);
    while let Some(word) = words.get(at) {
        at += 1;
        if let Some(long) = word.strip_prefix("--") {
            if matches!(long, "count" | "quiet" | "files-with-matches") {
                return Some(place);
            }
            at += usize::from(!long.contains('=') && !FLAGS.contains(&long));
        } else if let Some(letters) = word.strip_prefix('-') {
            let flags = letters.find(|c| "efmABCdD".contains(c)).unwrap_or(letters.len());
            if letters[..flags].contains(['c', 'q', 'l', 'L']) {
                return Some(place);
            }
            // A letter with a word, which is the next one.
            at += usize::from(flags + 1 == letters.len());
        } else {
            place = Stands::Behind;
        }
    }
    None
}

/// The scripts of `sed` that only edit lines; also its files, if it shows nothing of them but names.
fn edited_by(words: &[String], found: &mut Vec<usize>) {
    let (mut scripts, mut files, mut is_in_place) = (Vec::new(), Vec::new(), false);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let letters = word.strip_prefix('-').unwrap_or_default();
        let with_word = letters.find(|c| "efli-".contains(c)).map(|at| letters.split_at(at));
        match with_word.map(|(_, its)| its) {
            None if letters.is_empty() => files.push(at),
            None => {}
            Some("e") => {
                at += 1;
                scripts.push(at);
            }
            // Behind the script it may be a file, with `POSIXLY_CORRECT`.
            Some(its) if its.starts_with('i') => is_in_place |= files.is_empty(),
            // Scripts in files or in the option's own word, and long options, which may be abbreviated.
            Some(_) => return,
        }
        at += 1;
    }
    if scripts.is_empty() && !files.is_empty() {
        scripts.push(files.remove(0));
    }
    let is_edit = |at: &usize| words.get(*at).is_some_and(|script| only_edits(script));
    if scripts.is_empty() || !scripts.iter().all(is_edit) {
        return;
    }
    let is_names = scripts.len() == 1 && words[scripts[0]] == "s/=.*//";
    if is_in_place || is_names {
        found.append(&mut files);
    }
    found.append(&mut scripts);
}

/// `jq --arg NAME VALUE`.
fn given_to_jq(words: &[String], found: &mut Vec<usize>) {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += match word.as_str() {
            "--" => return,
            "--arg" | "--argjson" => {
                found.extend([at + 1, at + 2].into_iter().filter(|at| *at < words.len()));
                3
            }
            "--rawfile" | "--slurpfile" | "--argfile" => 3,
            "-f" | "--from-file" | "--indent" | "-L" => 2,
            _ => 1,
        };
    }
}

/// Whether a script of `sed` only replaces, shows or deletes lines: others read files and run programs.
fn only_edits(script: &str) -> bool {
    static EDITS: LazyLock<Regex> = LazyLock::new(|| {
        let address = r"(\d+|\$|/([^/\\\n]|\\.)*/)";
        let each = ["/", "#", r"\|", ",", "@", "!"].map(|d| {
            let part = format!(r"([^\\\n{d}]|\\.)*");
            format!("s{d}{part}{d}{part}{d}[gpiI0-9]*")
        });
        let edits = format!("^({address}(,{address})?)?!?([pd]|{})$", each.join("|"));
        Regex::new(&edits).expect("the pattern is tested")
    });
    EDITS.is_match(script)
}
