//! What a command only says: messages, patterns, what is left out, where it writes. Rules are about what it does, so
//! these words are not judged; neither are names of files and variables that hold no secrets by their very names.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

use super::unwrap::is_shell;

/// What stands in the place of what is not judged.
const NOTHING: &str = "_";

/// Which words of a program are not judged.
struct Said {
    programs: &'static [&'static str],
    /// The first word that is no option; any when empty.
    verbs: &'static [&'static str],
    /// Options whose word is said.
    options: &'static [&'static str],
    /// Further options with a word of their own.
    with_word: &'static [&'static str],
    first: First,
}

/// Whether the first word that is no option is said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// No.
    Judged,
    /// A pattern, unless one of the options gave it.
    Pattern,
}

const fn said(
    programs: &'static [&'static str],
    verbs: &'static [&'static str],
    options: &'static [&'static str],
) -> Said {
    Said { programs, verbs, options, with_word: &[], first: First::Judged }
}

const TABLE: &[Said] = &[
    said(
        &["git", "hg", "jj", "svn"],
        &["commit", "tag", "merge", "notes", "stash", "revert", "describe", "desc", "ci"],
        &["-m", "--message"],
    ),
    said(&["git"], &["log", "diff", "shortlog"], &["-S", "-G", "--grep", "--author"]),
    said(
        &["gh", "glab"],
        &["pr", "issue", "release", "mr"],
        &["-t", "--title", "-b", "--body", "-n", "--notes", "-d", "--description"],
    ),
    Said {
        programs: &["grep", "egrep", "fgrep", "zgrep", "pcregrep", "ugrep"],
        verbs: &[],
        options: &["-e", "--regexp", "--exclude", "--exclude-dir"],
        with_word: &["-A", "-B", "-C", "-m", "-f", "--file"],
        first: First::Pattern,
    },
    Said {
        programs: &["rg", "ag", "ack"],
        verbs: &[],
        options: &["-e", "--regexp", "--ignore", "--ignore-dir"],
        with_word: &["-A", "-B", "-C", "-m", "-f", "--file", "-g", "--glob"],
        first: First::Pattern,
    },
    Said {
        programs: &["git"],
        verbs: &["grep"],
        options: &["-e"],
        with_word: &["-A", "-B", "-C", "-m", "-f"],
        first: First::Pattern,
    },
    said(&["tar", "rsync", "du", "7z", "tree", "fd"], &[], &["--exclude", "-E", "-I"]),
    said(&["zip"], &[], &["-x", "--exclude"]),
    said(&["scp", "ssh", "sftp"], &[], &["-i"]),
    said(&["curl"], &[], &["-o", "--output", "-E", "--cert", "--cacert", "--key"]),
    said(&["wget"], &[], &["-O", "--output-document", "--ca-certificate"]),
];

/// The words of a command as our rules look at them.
pub(super) fn meant(words: &[String]) -> Vec<String> {
    let program = words.first().map_or("", String::as_str);
    let runs = is_shell(program) || matches!(program, "source" | "." | "eval");
    let own = |word: &String| {
        // Its commands are looked at by themselves, unless what they say is run.
        if word.starts_with("<(") && !runs { NOTHING.to_owned() } else { harmless_names(word) }
    };
    let mut meant: Vec<String> = words.iter().map(own).collect();
    for index in unjudged(words) {
        NOTHING.clone_into(&mut meant[index]);
    }
    if matches!(words.first().map(String::as_str), Some("jq" | "yq" | "dasel" | "gojq" | "jaq")) {
        let filter =
            (1..meant.len()).find(|at| !meant[*at].starts_with('-') && meant[*at] != NOTHING);
        // A filter with a member of that name, and no file.
        if let Some(at) = filter.filter(|at| meant[at - 1] != "-f") {
            meant[at] = meant[at].replace(".env", "._env");
        }
    }
    meant
}

/// Which of these words are not judged.
pub(super) fn unjudged(words: &[String]) -> Vec<usize> {
    let Some(name) = words.first().and_then(|word| word.rsplit('/').next()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for said in TABLE.iter().filter(|said| said.programs.contains(&name)) {
        said_by(said, words, &mut found);
    }
    written_by(name, words, &mut found);
    found
}

fn said_by(said: &Said, words: &[String], found: &mut Vec<usize>) {
    let (mut at, mut verb, mut pattern, mut options_end) = (1, None, false, false);
    while let Some(word) = words.get(at) {
        let is_option = word.len() > 1 && word.starts_with('-') && !options_end;
        if word == "--" {
            options_end = true;
        } else if !is_option {
            if verb.is_none() && !said.verbs.is_empty() {
                if !said.verbs.contains(&word.as_str()) {
                    return;
                }
                verb = Some(word);
            } else if said.first == First::Pattern && !pattern {
                pattern = true;
                found.push(at);
            }
        } else if verb.is_none() && !said.verbs.is_empty() {
            // Options before the verb, of which git's have a word.
            at += usize::from(matches!(word.as_str(), "-C" | "-c"));
        } else {
            match option(word, said.options) {
                Its::Own => found.push(at),
                Its::Next => {
                    at += 1;
                    found.push(at);
                }
                Its::None => {
                    let its = option(word, said.with_word);
                    pattern |= matches!(word.as_str(), "-f" | "--file");
                    at += usize::from(its == Its::Next);
                    // Only with `!` does it name what is left out.
                    let is_left_out = words.get(at).is_some_and(|word| word.starts_with('!'));
                    if its == Its::Next && is_left_out {
                        found.push(at);
                    }
                }
            }
            pattern |= option(word, &["-e", "--regexp"]) != Its::None;
        }
        at += 1;
    }
    found.retain(|index| *index < words.len());
}

/// Where an option's word is.
#[derive(PartialEq, Eq)]
enum Its {
    /// In the same word.
    Own,
    /// In the next one.
    Next,
    /// It is none of these.
    None,
}

fn option(word: &str, options: &[&str]) -> Its {
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((name, _)) if options.contains(&name) => Its::Own,
            _ if options.contains(&word) => Its::Next,
            _ => Its::None,
        };
    }
    let mut letters = word.char_indices().skip(1);
    let is_one = |letter: char| {
        options.iter().any(|o| o.len() == 2 && !o.starts_with("--") && o.ends_with(letter))
    };
    match letters.find(|(_, letter)| is_one(*letter)) {
        Some((at, letter)) if at + letter.len_utf8() == word.len() => Its::Next,
        Some((1, _)) => Its::Own,
        // Other letters before it: it may as well be the word of one of these.
        Some(_) | None => Its::None,
    }
}

/// Words that are written to, or of which nothing is shown but names and counts.
fn written_by(name: &str, words: &[String], found: &mut Vec<usize>) {
    let plain = |at: &usize| !words[*at].starts_with('-');
    let has = |of: &[&str]| words[1..].iter().any(|word| option(word, of) != Its::None);
    let is = |word: &str| words[1..].iter().any(|w| w == word);
    let mut arguments = (1..words.len()).filter(plain);
    match name {
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp"
            if !has(&["-t", "--target-directory"]) && arguments.clone().count() > 1 =>
        {
            found.extend(arguments.next_back());
        }
        "tee" => found.extend(arguments),
        "grep" | "egrep" | "fgrep" if has_flag(words, "cqlL") => {
            found.extend(1..words.len());
        }
        "cut" if is("-d=") && is("-f1") => found.extend(arguments),
        "awk" | "gawk" | "mawk" if is("-F=") && is("{print $1}") => found.extend(arguments),
        "grep" if is("-o") && (is("^[A-Z_]*=") || is("^[^=]*=")) => found.extend(arguments),
        "sed" => {
            let script = (1..words.len()).find(plain).filter(|at| only_edits(&words[*at]));
            let all = script.is_some_and(|at| words[at] == "s/=.*//")
                || words[1..].iter().any(|word| word.starts_with("-i"));
            found.extend(script);
            if all && script.is_some() {
                found.extend(arguments);
            }
        }
        name if name.starts_with("python") && is("dotenv") && is("set") => found.extend(arguments),
        _ => {}
    }
    let writes = name.starts_with("python") || matches!(name, "node" | "npx" | "go" | "cargo");
    let options: &[&str] =
        if writes { &["--out", "--output", "--env-file"] } else { &["--env-file"] };
    for (at, word) in words.iter().enumerate().skip(1) {
        match option(word, options) {
            Its::Own => found.push(at),
            Its::Next if at + 1 < words.len() => found.push(at + 1),
            Its::Next | Its::None => {}
        }
    }
    // `jq --arg NAME VALUE`.
    if name == "jq" {
        let args = (1..words.len()).filter(|at| words[*at] == "--arg" || words[*at] == "--argjson");
        found.extend(args.flat_map(|at| [at + 1, at + 2]).filter(|at| *at < words.len()));
    }
}

/// Whether one of these letters is an option, before any that has a word.
fn has_flag(words: &[String], flags: &str) -> bool {
    words[1..].iter().any(|word| {
        word.strip_prefix('-').is_some_and(|letters| {
            let letters = letters.chars().take_while(char::is_ascii_alphabetic);
            letters.take_while(|c| !"efmABCdD".contains(*c)).any(|c| flags.contains(c))
        }) || matches!(word.as_str(), "--count" | "--quiet" | "--files-with-matches")
    })
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

/// A word without names that say by themselves that there is no secret: examples of `.env`, and variables that are not
/// named like credentials.
fn harmless_names(word: &str) -> String {
    static EXAMPLES: LazyLock<Regex> = LazyLock::new(|| {
        let words = "example|sample|template|tmpl|dist|defaults?";
        let pattern = format!(r"(?i)\.env(rc)?([._-][a-z0-9]+)?[._-]({words})\b|\.env\.d\.ts\b");
        Regex::new(&pattern).expect("the pattern is tested")
    });
    static VARIABLES: LazyLock<Regex> = LazyLock::new(|| {
        let begins = [
            r#"os\.environ(?:\.get\(|\[)\s*['"]"#,
            r#"os\.getenv\(\s*['"]"#,
            r"process\.env\.",
            r#"process\.env\[['"]"#,
            r#"\bENV(?:\.fetch\(|\[)['"]"#,
            r"\bENVIRON\[",
            r"\$ENV\{",
        ];
        let pattern = format!(r#"(?:{})"?([A-Z][A-Z0-9_]*)\b"#, begins.join("|"));
        Regex::new(&pattern).expect("the pattern is tested")
    });
    // Of an object of Kubernetes, its name is none of its data.
    if word == "jsonpath={.metadata.name}" {
        return NOTHING.to_owned();
    }
    // Most words have none of these names, and the expressions cost more than this.
    if !word.as_bytes().windows(3).any(|part| part.eq_ignore_ascii_case(b"env")) {
        return word.to_owned();
    }
    let word = EXAMPLES.replace_all(word, NOTHING);
    let plain = VARIABLES.replace_all(&word, |found: &Captures<'_>| {
        if is_credential(&found[1]) { found[0].to_owned() } else { NOTHING.to_owned() }
    });
    match plain {
        Cow::Borrowed(_) => word.into_owned(),
        Cow::Owned(plain) => plain,
    }
}

/// Whether a variable is named like one that holds a credential, or an address with one.
fn is_credential(name: &str) -> bool {
    let is_word = |word: &str| {
        matches!(
            word,
            "PASS"
                | "PASSWD"
                | "PASSWORD"
                | "PASSPHRASE"
                | "SECRET"
                | "SECRETS"
                | "TOKEN"
                | "TOKENS"
                | "KEY"
                | "KEYS"
                | "APIKEY"
                | "CRED"
                | "CREDS"
                | "CREDENTIAL"
                | "CREDENTIALS"
                | "AUTH"
                | "PAT"
                | "DSN"
                | "URL"
                | "URI"
                | "CONNECTION"
                | "COOKIE"
        )
    };
    name.split('_').any(is_word) || name.ends_with("_PWD") || name.contains("PASSWORD")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a command, joined by spaces.
    fn left(command: &str) -> String {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        meant(&words).join(" ")
    }

    #[test]
    fn what_is_said_is_not_judged_and_what_is_read_is() {
        for (command, expected) in [
            ("git commit -m x y", "git commit -m _ y"),
            ("git -C d commit -am x", "git -C d commit -am _"),
            ("git commit --message=x", "git commit _"),
            ("git log -Sx", "git log _"),
            ("git show x", "git show x"),
            ("grep x .env", "grep _ .env"),
            ("grep -A 3 x .env", "grep -A 3 _ .env"),
            ("grep -e x .env", "grep -e _ .env"),
            ("grep -ne x .env", "grep -ne _ .env"),
            ("grep -f .env x", "grep -f .env x"),
            ("grep -q x .env", "grep _ _ _"),
            ("grep -eq .env", "grep _ .env"),
            ("grep -- x .env", "grep -- _ .env"),
            ("rg x -g !.env -g .env", "rg _ -g _ -g .env"),
            ("cp .env x", "cp .env _"),
            ("cp x .env", "cp x _"),
            ("cp -t x .env", "cp -t x .env"),
            ("tee -a .env", "tee -a _"),
            ("sed s/a/b/ .env", "sed _ .env"),
            ("sed -i s/a/b/ .env", "sed -i _ _"),
            ("sed -i s/a/b/w.env .env", "sed -i s/a/b/w.env .env"),
            ("sed 1eenv x", "sed 1eenv x"),
            ("cat .env.example .env", "cat _ .env"),
            ("node -e process.env.CI", "node -e _"),
            ("node -e process.env.API_KEY", "node -e process.env.API_KEY"),
            ("python -c os.environ.items()", "python -c os.environ.items()"),
        ] {
            assert_eq!(left(command), expected, "{command}");
        }
    }
}
