//! Calls of this program in the bash blocks of a slash command.

use crate::commands::MUTATING;

/// Options that take a value, which is no word of the command.
const WITH_VALUE: &[&str] = &["--repo", "--profile", "--target", "--machine"];

/// One call.
#[derive(Debug, PartialEq)]
pub(super) struct Invocation {
    /// Counted from one.
    pub(super) line: usize,
    /// What stands behind the program's name.
    pub(super) words: String,
    /// The command, where it is one that writes.
    pub(super) command: Option<&'static str>,
}

impl Invocation {
    /// All calls in a text: in the lines from one that says `!bash` to the next blank one.
    pub(super) fn all(text: &str) -> Vec<Self> {
        let mut found = Vec::new();
        let mut inside = false;
        for (number, line) in text.lines().enumerate() {
            match line.trim() {
                "!bash" => inside = true,
                "" => inside = false,
                line if inside => {
                    let pieces = line.split(['&', '|', ';']).filter_map(words_of);
                    found.extend(pieces.map(|words| Self {
                        line: number + 1,
                        command: mutating(&words),
                        words: words.join(" "),
                    }));
                }
                _ => {}
            }
        }
        found
    }

    /// What a call by an agent must say and this one does not; nothing for commands that only read.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let says = |flag: &&str| self.words.split(' ').any(|word| word == *flag);
        let wanted: &[&str] = if self.command.is_some() { &["--json", "--yes"] } else { &[] };
        wanted.iter().filter(|flag| !says(flag)).copied().collect()
    }
}

/// The words behind the program's name, where it is called.
fn words_of(piece: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = piece.split_whitespace().collect();
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let at =
        words.iter().position(|word| matches!(name(word).as_str(), "agentpack" | "keyless"))?;
    let rest = &words[at + 1..];
    match (name(words[at]).as_str(), rest.first()) {
        ("agentpack", _) => Some(rest.to_vec()),
        (_, Some(&"pack")) => Some(rest[1..].to_vec()),
        _ => None,
    }
}

/// The id of the command that writes, where it is one.
fn mutating(words: &[&str]) -> Option<&'static str> {
    let mut plain = Vec::new();
    let mut words_left = words.iter();
    while let Some(word) = words_left.next() {
        if WITH_VALUE.contains(word) {
            words_left.next();
        } else if !word.starts_with('-') {
            plain.push(*word);
        }
    }
    MUTATING.iter().copied().find(|id| {
        let (flags, names): (Vec<&str>, Vec<&str>) =
            id.split(' ').partition(|word| word.starts_with("--"));
        plain.starts_with(&names) && flags.iter().all(|flag| words.contains(flag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_write_are_told_from_calls_that_read() {
        let text = "---\n---\nagentpack lock\n!bash\nagentpack plan --json\nagentpack --repo x lock --yes\n\
                    echo hi && keyless pack deploy --apply --json --yes; agentpack deploy --json\n\nagentpack lock\n\
                    !bash\nA=1 /opt/agentpack overlay edit foo --json | jq .\nkeyless run -- x\n";
        let seen: Vec<_> = Invocation::all(text)
            .into_iter()
            .map(|one| (one.line, one.command, one.missing()))
            .collect();
        assert_eq!(
            seen,
            [
                (5, None, vec![]),
                (6, Some("lock"), vec!["--json"]),
                (7, Some("deploy --apply"), vec![]),
                (7, None, vec![]),
                (11, Some("overlay edit"), vec!["--yes"]),
            ]
        );
    }
}
