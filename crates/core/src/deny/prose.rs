//! What a command only says: messages, patterns, what is left out, where it writes. Rules are about what it does, so
//! these words are not judged; neither are names of files and variables that hold no secrets by their very names.

mod names;
mod written;

use self::{names::harmless_names, written::written_by};
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
    /// Letters that may stand before that of an option: they have no word.
    flags: &'static str,
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
    flags: &'static str,
) -> Said {
    Said { programs, verbs, options, with_word: &[], flags, first: First::Judged }
}

const GREPS: &[&str] = &["grep", "egrep", "fgrep", "zgrep", "pcregrep", "ugrep"];

const TABLE: &[Said] = &[
    said(
        &["git", "hg", "jj", "svn"],
        &["commit", "tag", "merge", "notes", "stash", "revert", "describe", "desc", "ci"],
        &["-m", "--message"],
        "Aaefinopqsvz",
    ),
    said(&["git"], &["log", "diff", "shortlog"], &["-S", "-G", "--grep", "--author"], "pu"),
    said(
        &["gh"],
        &["pr", "issue", "release"],
        &["-t", "--title", "-b", "--body", "-n", "--notes"],
        "",
    ),
    said(
        &["glab"],
        &["issue", "release", "mr"],
        &["-t", "--title", "-n", "--notes", "-d", "--description"],
        "",
    ),
    Said {
        programs: GREPS,
        verbs: &[],
        options: &["-e", "--regexp", "--exclude", "--exclude-dir"],
        with_word: &["-A", "-B", "-C", "-m", "-d", "-D", "-f", "--file"],
        flags: "EFGHILPRTUZabchilnoqrsvwxyz0123456789",
        first: First::Pattern,
    },
    Said {
        programs: &["rg"],
        verbs: &[],
        options: &["-e", "--regexp"],
        with_word: &[
            "-A", "-B", "-C", "-m", "-f", "--file", "-g", "--glob", "-t", "-T", "-j", "-M", "-r",
            "-E", "-d",
        ],
        flags: "FHILNPSUachilnopqsuvwxz0.",
        first: First::Pattern,
    },
    Said {
        programs: &["ag", "ack"],
        verbs: &[],
        options: &["--ignore", "--ignore-dir"],
        with_word: &["-A", "-B", "-C", "-m"],
        flags: "HLQSchilnoqsvw",
        first: First::Pattern,
    },
    Said {
        programs: &["git"],
        verbs: &["grep"],
        options: &["-e"],
        with_word: &["-A", "-B", "-C", "-m", "-f"],
        flags: "EFGHILPachilnopqrvwz0123456789",
        first: First::Pattern,
    },
    said(&["tar", "rsync", "7z"], &[], &["--exclude"], ""),
    said(&["du", "tree"], &[], &["--exclude", "-I"], "acdfhsx"),
    said(&["fd"], &[], &["--exclude", "-E"], "HIauLpsig"),
    said(&["zip"], &[], &["-x", "--exclude"], "rq"),
    said(&["scp", "ssh", "sftp"], &[], &["-i"], "346ACNTpqrvt"),
    said(
        &["curl"],
        &[],
        &["-o", "--output", "-E", "--cert", "--cacert", "--key"],
        "#0123456BGILMNRSfgijklnpqsvaO",
    ),
    said(&["wget"], &[], &["-O", "--output-document", "--ca-certificate"], "46NSbcdqvnkpr"),
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
        let is_file = |at: &usize| {
            let before = &meant[at - 1];
            before == "--from-file"
                || (before.starts_with('-') && !before.starts_with("--") && before.ends_with('f'))
                // The word before may be a name.
                || words.iter().any(|word| matches!(word.as_str(), "--rawfile" | "--slurpfile" | "--argfile"))
        };
        if let Some(at) = filter.filter(|at| !is_file(at)) {
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
    let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
    let (mut at, mut has_verb, mut options_end) = (1, said.verbs.is_empty(), false);
    // With `POSIXLY_CORRECT` what stands behind the first operand is a file, whatever it looks like.
    let mut has_operand = false;
    let is_posix = GREPS.contains(&words[0].rsplit('/').next().unwrap_or_default());
    // An option that gives it may stand behind what would be it otherwise.
    let mut pattern =
        said.first == First::Judged || words[1..].iter().any(|word| may_give(word, said));
    while let Some(word) = words.get(at) {
        let is_option = word.len() > 1 && word.starts_with('-') && !options_end;
        if word == "--" {
            options_end = true;
        } else if !is_option {
            has_operand |= has_verb;
            if !has_verb {
                if !said.verbs.contains(&word.as_str()) {
                    return;
                }
                has_verb = true;
            } else if !pattern {
                pattern = true;
                found.push(at);
            }
        } else if !has_verb {
            // Options before the verb, of which git's have a word.
            at += usize::from(matches!(word.as_str(), "-C" | "-c"));
        } else {
            match option(word, &[said.options, said.with_word], said.flags) {
                Some((name, Its::Own)) if said.options.contains(&name) => found.push(at),
                Some((name, Its::Next)) if said.options.contains(&name) => {
                    at += 1;
                    if !(is_posix && has_operand) {
                        found.push(at);
                    }
                }
                // What is no number belongs to none of these.
                Some(("-A" | "-B" | "-C" | "-m", Its::Next))
                    if !words.get(at + 1).is_some_and(is_number) => {}
                Some((_, Its::Next)) => {
                    at += 1;
                    // Only with `!` does it name what is left out.
                    if words.get(at).is_some_and(|word| word.starts_with('!')) {
                        found.push(at);
                    }
                }
                Some((_, Its::Own)) | None => {}
            }
        }
        at += 1;
    }
    found.retain(|index| *index < words.len());
}

/// Whether a word may be an option that gives the pattern, so that the first plain word is a file: also among other
/// letters, and shortened.
fn may_give(word: &str, said: &Said) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or(long);
        return !name.is_empty()
            && ["regexp", "file", "match"].iter().any(|known| known.starts_with(name));
    }
    let Some(letters) = word.strip_prefix('-') else { return false };
    let gives = |c: char| c == 'e' || c == 'f';
    let ends = |c: char| !gives(c) && said.with_word.iter().any(|o| o.len() == 2 && o.ends_with(c));
    letters.chars().take_while(|c| !ends(*c)).any(gives)
}

/// Where an option's word is.
#[derive(PartialEq, Eq)]
enum Its {
    /// In the same word.
    Own,
    /// In the next one.
    Next,
}

/// Which of these options a word has, be it behind `flags`. Behind other letters it may as well be the word of one of
/// them.
fn option(word: &str, known: &[&[&'static str]], flags: &str) -> Option<(&'static str, Its)> {
    let mut known = known.iter().flat_map(|each| each.iter().copied());
    if word.starts_with("--") {
        let (name, its) = match word.split_once('=') {
            Some((name, _)) => (name, Its::Own),
            None => (word, Its::Next),
        };
        return known.find(|option| *option == name).map(|option| (option, its));
    }
    let letters = word.strip_prefix('-')?;
    let at = letters.find(|letter: char| !flags.contains(letter))?;
    let (letter, rest) = letters[at..].split_at_checked(1)?;
    let option = known.find(|o| o.len() == 2 && o.ends_with(letter))?;
    Some((option, if rest.is_empty() { Its::Next } else { Its::Own }))
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
            ("grep -vf x .env", "grep -vf x .env"),
            ("grep -vfe .env", "grep -vfe .env"),
            ("grep .env --reg x", "grep .env --reg x"),
            ("grep -C .env x", "grep -C _ x"),
            ("grep x .env -- -c", "grep _ .env -- -c"),
            ("grep -e -c .env", "grep -e _ .env"),
            ("rg x -g !.env -g .env", "rg _ -g _ -g .env"),
            ("cp .env x", "cp .env _"),
            ("cp x .env", "cp x _"),
            ("cp -t x .env", "cp -t x .env"),
            ("cp --target=x y .env", "cp --target=x y .env"),
            ("cp -rt/x y .env", "cp -rt/x y .env"),
            ("tee -a .env", "tee -a _"),
            ("sed s/a/b/ .env", "sed _ .env"),
            ("sed -i s/a/b/ .env", "sed -i _ _"),
            ("sed -i s/a/b/w.env .env", "sed -i s/a/b/w.env .env"),
            ("sed 1eenv x", "sed 1eenv x"),
            ("sed -ni -e p -e s/a/b/ .env", "sed -ni -e _ -e _ _"),
            ("sed p .env -- -i", "sed p .env -- -i"),
            ("sed s/a/b/ .env -i", "sed _ .env -i"),
            ("grep x .env -c", "grep _ .env _"),
            ("grep -e x -c .env", "grep _ _ _ _"),
            ("grep ^[^=]*= .env -o", "grep _ .env -o"),
            ("grep -o ^[^=]*= .env", "grep -o _ _"),
            ("grep . -e .env", "grep . -e .env"),
            ("grep x . --exclude .env", "grep _ . --exclude .env"),
            ("grep x . --exclude=.env", "grep _ . _"),
            ("rsync -a . x --files-from .env", "rsync -a . x --files-from .env"),
            ("cp -- x -a .env", "cp -- x -a _"),
            ("cat --env-file .env", "cat --env-file .env"),
            ("node --env-file .env", "node --env-file _"),
            ("node -- --env-file .env", "node -- --env-file .env"),
            ("cat .env.example .env", "cat _ .env"),
            ("node -e process.env.CI", "node -e _"),
            ("node -e process.env.API_KEY", "node -e process.env.API_KEY"),
            ("python -c os.environ.items()", "python -c os.environ.items()"),
        ] {
            assert_eq!(left(command), expected, "{command}");
        }
    }
}
