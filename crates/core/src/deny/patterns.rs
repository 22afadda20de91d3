//! Braces and patterns in words: what a shell, or a search, would make of them.

/// As many words as one word's braces may become.
const MAX_WORDS: usize = 256;
/// The longest word whose braces are followed.
const MAX_LENGTH: usize = 4096;
/// Names that begin with a dot, and hold credentials.
const HIDDEN: &[&str] = &[
    ".env",
    ".env.local",
    ".env.production",
    ".envrc",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pgpass",
    ".vault-token",
    ".aws",
    ".ssh",
];
/// Other names that a search may be for.
const SEARCHED: &[&str] = &["credentials", "id_rsa", "environ", "server.key", "store.db"];
/// Files and folders that keep credentials or tell of processes, part by part: from a root, or from any folder if they
/// begin with a dot.
const PLACES: &[&[&str]] = &[
    &["dev", "kmem"],
    &["dev", "mem"],
    &["dev", "port"],
    &["etc", "gshadow"],
    &["etc", "kubernetes"],
    &["etc", "rancher"],
    &["etc", "shadow"],
    &["proc"],
    &["run", "secrets"],
    &["var", "run", "secrets"],
    &[".aws", "credentials"],
    &[".azure"],
    &[".cargo", "credentials.toml"],
    &[".claude", ".credentials.json"],
    &[".codex", "auth.json"],
    &[".config", "gcloud"],
    &[".config", "gh"],
    &[".config", "git", "credentials"],
    &[".config", "github-copilot"],
    &[".config", "glab-cli"],
    &[".config", "keyless"],
    &[".config", "op"],
    &[".config", "rclone"],
    &[".docker", "config.json"],
    &[".gem", "credentials"],
    &[".gnupg"],
    &[".gradle", "gradle.properties"],
    &[".kube", "config"],
    &[".m2", "settings.xml"],
    &[".password-store"],
    &[".pypirc"],
];
/// Names of files that keep credentials.
const KEEPERS: &[&str] = &[
    "client_secret.json",
    "credentials.json",
    "credentials.toml",
    "credentials.yaml",
    "credentials.yml",
    "secret.json",
    "secret.yaml",
    "secret.yml",
    "secrets.env",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account.json",
    "service_account.json",
    "wp-config.php",
];
/// As many parts of a path are looked at as the beginning of a place.
const MAX_BEGINNINGS: usize = 4;
/// Programs that show all variables.
const DUMPS: &[&str] = &["env", "printenv"];
/// Other programs that do harm by what they are given, in the order in which they are tried.
const GIVEN: &[&str] = &[
    "cat", "bash", "sh", "head", "tail", "less", "more", "grep", "sed", "awk", "base64", "cp",
    "tac", "nl", "od", "xxd", "strings", "sort", "cut", "rev", "dd", "tee", "zsh", "dash", "ksh",
    "python3", "python", "node", "perl", "ruby", "php", "curl", "wget", "tar", "vault", "op", "gh",
    "aws", "pass", "bw", "keyless", "docker", "kubectl", "git", "find", "xargs", "sudo", "busybox",
];
/// As many programs as one pattern is tried for.
const MAX_PROGRAMS: usize = 16;

/// The words that braces make of one, itself when it has none; nothing when there are too many.
pub(super) fn braces(word: &str) -> Option<Vec<String>> {
    let mut open = vec![ranges(word)];
    let mut done = Vec::new();
    while let Some(word) = open.pop() {
        match first_braces(&word) {
            None => done.push(word),
            // Each look at it is as long as the word.
            Some(_) if word.len() > MAX_LENGTH => return None,
            Some((began, parts, end)) => {
                let each = parts.iter().rev();
                open.extend(each.map(|part| format!("{}{part}{}", &word[..began], &word[end..])));
            }
        }
        if done.len() + open.len() > MAX_WORDS {
            return None;
        }
    }
    Some(done)
}

/// A word whose ranges of one character are patterns, which stand for the same: `{a..z}` is `[a-z]`.
fn ranges(word: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(word.len()), word);
    while let Some(at) = rest.find('{') {
        let is_braces = !rest[..at].ends_with('$');
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match rest.as_bytes() {
            [b'{', from, b'.', b'.', to, b'}', ..]
                if is_braces && from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric() =>
            {
                let (low, high) = (*from.min(to), *from.max(to));
                if low == high {
                    out.push(char::from(low));
                } else {
                    out.extend(['[', char::from(low), '-', char::from(high), ']']);
                }
                rest = &rest[6..];
            }
            _ => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// Where the first braces with a comma begin, what they list, and where they end.
fn first_braces(word: &str) -> Option<(usize, Vec<&str>, usize)> {
    let bytes = word.as_bytes();
    let (mut depth, mut began, mut commas) = (0_usize, 0, Vec::new());
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if depth == 0 && at > 0 && bytes[at - 1] == b'$' => {}
            b'{' => {
                if depth == 0 {
                    (began, commas) = (at, vec![at]);
                }
                depth += 1;
            }
            b',' if depth == 1 => commas.push(at),
            b'}' if depth == 1 && commas.len() > 1 => {
                commas.push(at);
                let parts = commas.windows(2).map(|pair| &word[pair[0] + 1..pair[1]]).collect();
                return Some((began, parts, at + 1));
            }
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// What a program's name may be that is written as a pattern.
pub(super) fn programs(word: &str) -> Vec<String> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let literal = name.chars().filter(char::is_ascii_alphanumeric).count();
    // `*` alone runs whatever is first, and `e*` what only its author knows.
    let is_plain = literal > 1 || !name.contains('*');
    let dumps = DUMPS.iter().filter(|_| is_plain);
    let given = GIVEN.iter().filter(|_| is_plain || literal > 0);
    let mut found = matching(name, dumps.chain(given).copied());
    found.truncate(MAX_PROGRAMS);
    found
}

/// Whether a program's name that is written as a pattern may be one of these.
pub(super) fn stands_for(name: &str, known: &[&str]) -> bool {
    is_telling(name) && !matching(name, known.iter().copied()).is_empty()
}

/// `*` alone may be anything.
fn is_telling(name: &str) -> bool {
    !name.contains('*') || name.contains(|c: char| c.is_ascii_alphanumeric())
}

/// The names with credentials that a path with patterns may stand for. A shell's pattern takes no leading dot; that of
/// a `search` does.
pub(super) fn names(word: &str, search: bool) -> Vec<String> {
    if word.len() > 256 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, part) in parts(word) {
        let hidden = HIDDEN.iter().copied().filter(|_| search || part.starts_with('.'));
        let searched = SEARCHED.iter().copied().filter(|_| search);
        let literal = part.chars().filter(char::is_ascii_alphanumeric).count();
        if search && literal < 2 && !part.starts_with('.') {
            continue;
        }
        for name in matching(part, hidden.chain(searched)) {
            found.push(format!("{}{name}{}", &word[..at], &word[at + part.len()..]));
        }
    }
    if !search {
        found.extend(places(word));
        found.extend(keepers(word));
    }
    found
}

/// A path with patterns as one to each place that it may lead to.
fn places(word: &str) -> Vec<String> {
    let literal = word.chars().filter(char::is_ascii_alphanumeric).count();
    if literal < 2 && word.contains('*') {
        return Vec::new();
    }
    let (root, parts) = (if word.starts_with('/') { "/" } else { "" }, parts_of(word));
    let begins = |at: &usize| {
        (*at == 0 && !root.is_empty()) || (parts[*at].starts_with('.') && parts[*at] != "..")
    };
    let mut found = Vec::new();
    for at in (0..parts.len()).filter(begins).take(MAX_BEGINNINGS) {
        let of_its_kind =
            PLACES.iter().filter(|place| place[0].starts_with('.') == parts[at].starts_with('.'));
        for place in of_its_kind.filter(|place| leads_to(&parts[at..], place)) {
            let (before, rest) = (&parts[..at], &parts[at + place.len()..]);
            found.push(format!("{root}{}", [before, place, rest].concat().join("/")));
        }
    }
    found
}

/// The parts of a path without those that lead nowhere.
fn parts_of(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        let last = parts.last().is_none_or(|last| *last == "..");
        match (part, last) {
            ("..", false) => drop(parts.pop()),
            // Above the root there is the root.
            ("..", true) if path.starts_with('/') => {}
            _ => parts.push(part),
        }
    }
    parts
}

/// Whether a path may lead to a place, by at least one pattern. A star alone in a place's own folder tells nothing.
fn leads_to(parts: &[&str], place: &[&str]) -> bool {
    let Some(parts) = parts.get(..place.len()) else { return false };
    let fits = |(at, (part, name)): (usize, (&&str, &&str))| {
        part.eq_ignore_ascii_case(name)
            || ((at == 0 || !part.bytes().all(|byte| byte == b'*'))
                && (part.starts_with('.') || !name.starts_with('.'))
                && !matching(part, std::iter::once(*name)).is_empty())
    };
    parts.iter().any(|part| is_pattern(part)) && parts.iter().zip(place).enumerate().all(fits)
}

/// A path whose name is a pattern as one to each file that it may be: with three letters or more before its first sign, and an
/// end that is none (`src/cli*` is a folder's files, `cli*.json` may be keys).
fn keepers(word: &str) -> Vec<String> {
    let began = word.rfind('/').map_or(0, |at| at + 1);
    let name = &word[began..];
    let literal = name.find(['*', '?', '[']).unwrap_or_default();
    let ends = name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let found = matching(name, KEEPERS.iter().copied().filter(|_| literal > 2 && ends));
    found.into_iter().map(|name| format!("{}{name}", &word[..began])).collect()
}

fn parts(path: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    path.split('/').map(move |part| {
        let began = at;
        at += part.len() + 1;
        (began, part)
    })
}

fn matching<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    if !is_pattern(pattern) || pattern.len() > 64 {
        return Vec::new();
    }
    let pattern: Vec<char> = pattern.chars().collect();
    names.filter(|name| fits(&pattern, name)).map(str::to_owned).collect()
}

pub(super) fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?', '['])
}

/// Whether a pattern of a shell stands for a name: one row of states, so that many stars cost no more than their number.
fn fits(pattern: &[char], name: &str) -> bool {
    // `states[i]`: the first i pieces of the pattern have been matched.
    let pieces = pieces(pattern);
    let mut states = vec![false; pieces.len() + 1];
    states[0] = true;
    skip_stars(&pieces, &mut states);
    for c in name.chars() {
        let mut next = vec![false; states.len()];
        for (index, piece) in pieces.iter().enumerate().filter(|(index, _)| states[*index]) {
            match piece {
                Piece::Star => next[index] = true,
                piece if piece.takes(c) => next[index + 1] = true,
                _ => {}
            }
        }
        skip_stars(&pieces, &mut next);
        states = next;
    }
    states[pieces.len()]
}

enum Piece<'p> {
    Any,
    One(char),
    OneOf(&'p [char]),
    Star,
}

impl Piece<'_> {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => one.eq_ignore_ascii_case(&c),
            Self::OneOf(['!' | '^', rest @ ..]) => !is_in(rest, c),
            Self::OneOf(set) => is_in(set, c),
            Self::Star => false,
        }
    }
}

fn is_in(set: &[char], c: char) -> bool {
    set.contains(&c) || set.windows(3).any(|range| range[1] == '-' && (range[0]..=range[2]).contains(&c))
        // A class such as `[[:alpha:]]`: what it holds is not asked.
        || set.contains(&':')
}

fn pieces(pattern: &[char]) -> Vec<Piece<'_>> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(c) = pattern.get(at) {
        at += 1;
        let piece = match c {
            '*' => Piece::Star,
            '?' => Piece::Any,
            '[' => match pattern[at..].iter().skip(1).position(|c| *c == ']') {
                Some(length) => {
                    let set = &pattern[at..=at + length];
                    at += length + 2;
                    Piece::OneOf(set)
                }
                None => Piece::One('['),
            },
            other => Piece::One(*other),
        };
        pieces.push(piece);
    }
    pieces
}

fn skip_stars(pieces: &[Piece<'_>], states: &mut [bool]) {
    for (index, piece) in pieces.iter().enumerate() {
        if states[index] && matches!(piece, Piece::Star) {
            states[index + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_and_patterns_are_followed() {
        assert_eq!(braces("a").unwrap(), ["a"]);
        assert_eq!(braces(".e{n,}v").unwrap(), [".env", ".ev"]);
        assert_eq!(braces("{a,b{c,d}}e${x,,}").unwrap(), ["ae${x,,}", "bce${x,,}", "bde${x,,}"]);
        assert_eq!(braces("{a}{1..30}").unwrap(), ["{a}{1..30}"]);
        assert_eq!(braces(".e{n..n}{z..a}${1..3}").unwrap(), [".en[a-z]${1..3}"]);
        assert!(braces(&"{a,b}".repeat(20)).is_none());
        assert_eq!(
            names("./.e*", false),
            ["./.env", "./.env.local", "./.env.production", "./.envrc"]
        );
        assert_eq!(names(".[e]n?", false), [".env"]);
        assert!(names("*", false).is_empty() && names("src/*", false).is_empty());
        assert_eq!(names("*nv", true), [".env"]);
        assert!(names("*", true).is_empty() && names("*.rs", true).is_empty());
        assert_eq!(programs("/bin/en?"), ["env"]);
        assert_eq!(names("/pr*/self/environ", false), ["/proc/self/environ"]);
        assert_eq!(names("/tmp/../p*/./s*/e*", false), ["/proc/s*/e*"]);
        assert_eq!(names("~/.kub?/config", false), ["~/.kube/config"]);
        assert_eq!(names("src/cred*.json", false), ["src/credentials.json"]);
        for harmless in ["/*/*/e*", "/tmp/p*/x", "p*/self/environ", "~/.config/*/x", "c*.json"] {
            assert!(names(harmless, false).is_empty(), "{harmless}");
        }
    }
}
