//! Programs that run other programs: what they run is looked at as well.

mod wrappers;

use self::wrappers::{Form, WRAPPERS, Wrapper};

/// As many places are tried as a command may begin at behind options that are not known.
const MAX_BEGINNINGS: usize = 32;
/// The longest name of a search that is put into its commands: they may have its sign again and again.
const MAX_NAME: usize = 64;
/// With more words than this only the first few.
const MAX_WORDS: usize = 512;

/// What stands inside a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inside {
    /// Whether the program does nothing but run what stands inside.
    pub(super) is_all: bool,
    /// Whether nobody knows that the program is one that runs this.
    pub(super) is_guess: bool,
    /// Commands, word by word.
    pub(super) commands: Vec<Vec<String>>,
    /// Scripts, with the words that are `$0`, `$1` and so on to them.
    pub(super) scripts: Vec<(String, Vec<String>)>,
}

/// Whether the words of a program are a command for another one.
pub(super) fn runs_another(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "dotenv" | "dotenv-cli" | "env" | "runuser" | "ssh")
        || WRAPPERS.iter().any(|wrapper| wrapper.program == name)
}

/// What `words` run.
pub(super) fn inside(words: &[String]) -> Inside {
    let Some((program, rest)) = words.split_first() else { return Inside::default() };
    match program.as_str() {
        "env" => of_env(rest),
        "eval" => script(rest.join(" ")),
        "find" => of_find(rest),
        "fd" | "fdfind" => of_fd(rest),
        "xargs" => command(after_xargs(rest).to_vec()),
        "parallel" => of_parallel(rest),
        "alias" => scripts(rest.iter().filter_map(|word| Some(word.split_once('=')?.1.to_owned()))),
        "script" => of_script(rest),
        "ssh" => of_ssh(rest),
        "git" => of_git(rest),
        shell if is_shell(shell) => of_shell(rest, true),
        "su" | "runuser" if rest.iter().any(|word| is_c(word)) => of_shell(rest, false),
        "runuser" => command(after_options(rest, &["-u", "-g", "-G", "--user"]).to_vec()),
        "vagrant" | "fly" | "flyctl" | "npx" | "expect" | "flock"
            if rest.iter().any(|w| is_c_or_upper(w)) =>
        {
            of_shell(rest, false)
        }
        "dotenv" | "dotenv-cli" => of_dotenv(rest),
        python
            if python.starts_with("python") && rest.len() > 2 && rest[..2] == ["-m", "dotenv"] =>
        {
            of_dotenv(&rest[2..])
        }
        // What a variable or a substitution is may be a shell.
        unknown if unknown.starts_with(['$', '`']) => {
            let Some(at) = rest.iter().position(|word| is_shells_c(word)) else {
                return Inside::default();
            };
            let mut inside = of_shell(&rest[at..], true);
            inside.scripts.retain(|(script, _)| is_more_than_a_word(script));
            for (script, _) in &mut inside.scripts {
                *script = without_calls(script);
            }
            Inside { is_guess: true, ..inside }
        }
        // Only asks where a program is.
        "command" if rest.first().is_some_and(|word| is_question(word)) => Inside::default(),
        other => {
            let name = if other.starts_with("ld-linux") { "ld.so" } else { other };
            let has_verb = |wrapper: &&Wrapper| {
                wrapper.verbs.is_empty() || rest.iter().any(|w| wrapper.verbs.contains(&w.as_str()))
            };
            let mut wrappers = WRAPPERS.iter().filter(|wrapper| wrapper.program == name);
            match wrappers.find(has_verb) {
                Some(wrapper) => of_wrapper(wrapper, rest),
                None => Inside::default(),
            }
        }
    }
}

fn of_wrapper(wrapper: &Wrapper, rest: &[String]) -> Inside {
    let rest = if wrapper.verbs.is_empty() {
        rest
    } else {
        let is_verb = |word: &String| wrapper.verbs.contains(&word.as_str());
        match rest.iter().position(is_verb) {
            Some(at) => &rest[at + 1..],
            None => return Inside::default(),
        }
    };
    if wrapper.form == Form::Anywhere {
        let begins = (0..rest.len()).filter(|at| !rest[*at].starts_with('-'));
        let most = if rest.len() > MAX_WORDS { 4 } else { MAX_BEGINNINGS };
        let commands = begins.take(most).map(|at| rest[at..].to_vec()).collect();
        return Inside { commands, ..Inside::default() };
    }
    let rest = after_options(rest, wrapper.with_word);
    let rest = after_options(rest.get(wrapper.skipped..).unwrap_or_default(), &[]);
    match wrapper.form {
        Form::Script if wrapper.program == "trap" => {
            script(rest.first().cloned().unwrap_or_default())
        }
        Form::Script => script(rest.join(" ")),
        Form::Anywhere | Form::Words => command(rest.to_vec()),
    }
}

/// `env` with a program only sets variables; without one it shows them all.
fn of_env(rest: &[String]) -> Inside {
    let split = |word: &String| {
        word.starts_with("--split-string") || (is_short(word) && word.contains('S'))
    };
    let with_word = ["-u", "-C", "-a", "--unset", "--chdir", "--argv0"];
    let options = rest.len() - after_options(rest, &with_word).len();
    if let Some(at) = rest[..options].iter().position(split) {
        let own = rest[at].split_once(['S', '=']).map_or("", |(_, script)| script);
        return script(format!("{own} {}", rest[at + 1..].join(" ")));
    }
    let rest = &rest[options..];
    let rest = &rest[rest.iter().take_while(|word| word.contains('=') || *word == "--").count()..];
    Inside { is_all: !rest.is_empty(), ..command(rest.to_vec()) }
}

/// Every `-exec`, with what the search is for in the place of `{}`.
fn of_find(rest: &[String]) -> Inside {
    let begins = ["-exec", "-execdir", "-ok", "-okdir"];
    let tests = ["-name", "-iname", "-path", "-ipath", "-wholename"];
    let is_short = |word: &&String| word.len() <= MAX_NAME;
    // Of processes' folders each is one of another.
    let folder = rest.first().filter(is_short).filter(|word| word.starts_with("/proc"));
    let folder = folder.map(|folder| format!("{folder}/1/")).unwrap_or_default();
    let at = |words: &[&str]| -> Vec<usize> {
        (0..rest.len()).filter(|at| words.contains(&rest[*at].as_str())).collect()
    };
    let found = at(&tests).into_iter().filter_map(|at| rest.get(at + 1)).filter(is_short);
    let mut found: Vec<String> = found.take(8).map(|name| format!("{folder}{name}")).collect();
    if found.is_empty() {
        found.push(all_of_keeper(rest).unwrap_or_else(|| "{}".to_owned()));
    }
    let mut commands = Vec::new();
    for at in at(&begins).into_iter().take(MAX_BEGINNINGS) {
        let command = rest[at + 1..].iter().take_while(|word| !matches!(word.as_str(), ";" | "+"));
        let command: Vec<&String> = command.take(MAX_WORDS).collect();
        for name in &found {
            commands.push(command.iter().map(|word| word.replace("{}", name)).collect());
        }
    }
    Inside { commands, ..Inside::default() }
}

/// All that a search finds in a folder in which nearly every file keeps a login.
pub(super) fn all_of_keeper(rest: &[String]) -> Option<String> {
    const KEEPERS: &[&str] = &[".aws", ".gnupg", ".kube", ".password-store", ".ssh"];
    let folder = rest.iter().find(|word| !word.starts_with('-'))?.trim_end_matches('/');
    let is_keeper = KEEPERS.contains(&folder.rsplit('/').next()?) && folder.len() <= MAX_NAME;
    is_keeper.then(|| format!("{folder}/*"))
}

fn of_fd(rest: &[String]) -> Inside {
    let runs = ["-x", "-X", "--exec", "--exec-batch"];
    let Some(at) = rest.iter().position(|word| runs.contains(&word.as_str())) else {
        return Inside::default();
    };
    let pattern = rest[..at].iter().find(|word| !word.starts_with('-'));
    let found: String =
        pattern.into_iter().flat_map(|p| p.chars()).filter(|c| !"^$\\".contains(*c)).collect();
    let mut command: Vec<String> = rest[at + 1..].to_vec();
    command.push(found);
    self::command(command)
}

/// `parallel COMMAND ::: WORDS`: the words are its arguments, or commands of their own.
fn of_parallel(rest: &[String]) -> Inside {
    let rest = after_options(rest, &["-j", "-a", "-n", "-I", "-d"]);
    let is_sign = |word: &String| word.starts_with(":::");
    command(rest.iter().filter(|word| !is_sign(word)).cloned().collect())
}

/// `script -c COMMAND`, and on BSD `script FILE COMMAND`.
fn of_script(rest: &[String]) -> Inside {
    if rest.iter().any(|word| is_c(word)) {
        return of_shell(rest, false);
    }
    command(after_options(rest, &["-t"]).get(1..).unwrap_or_default().to_vec())
}

/// What the other machine runs, and what this one does to reach it.
fn of_ssh(rest: &[String]) -> Inside {
    const WITH_WORD: &[&str] = &[
        "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
        "-Q", "-R", "-S", "-W", "-w",
    ];
    let reach = rest.iter().filter_map(|word| word.split_once("Command="));
    let host_and_more = after_options(rest, WITH_WORD);
    let there = after_options(host_and_more.get(1..).unwrap_or_default(), &[]).join(" ");
    scripts(reach.map(|(_, command)| command.to_owned()).chain([there]))
}

/// What git runs: aliases that begin with `!`, programs of its settings, and those that it is told to.
fn of_git(rest: &[String]) -> Inside {
    const PROGRAMS: &[&str] = &[
        "pager",
        "sshcommand",
        "fsmonitor",
        "editor",
        "external",
        "askpass",
        "helper",
        "cmd",
        "textconv",
    ];
    let mut found = Vec::new();
    for (at, word) in rest.iter().enumerate().take(MAX_BEGINNINGS * 2) {
        let next = rest.get(at + 1);
        let setting = match word.as_str() {
            "-c" => next.and_then(|setting| setting.split_once('=')),
            "config" => rest
                .get(rest.len().saturating_sub(2))
                .zip(rest.last())
                .map(|(a, b)| (a.as_str(), b.as_str())),
            _ => None,
        };
        if let Some((name, value)) = setting {
            let name = name.to_ascii_lowercase();
            match value.strip_prefix('!') {
                Some(script) => found.push(script.to_owned()),
                None if PROGRAMS.iter().any(|program| name.ends_with(program)) => {
                    found.push(value.to_owned());
                }
                None => {}
            }
        }
        let runs = match word.as_str() {
            "-x" | "--exec" | "--extcmd" => rest.iter().any(|w| w == "rebase" || w == "difftool"),
            word if word.ends_with("-filter") => rest.iter().any(|w| w == "filter-branch"),
            _ => false,
        };
        if runs {
            found.extend(next.cloned());
        }
        let verb = match word.as_str() {
            "bisect" => "run",
            "submodule" => "foreach",
            _ => continue,
        };
        if next.is_some_and(|next| next == verb) {
            found.push(after_options(&rest[at + 2..], &[]).join(" "));
        }
    }
    scripts(found.into_iter())
}

/// `dotenv [run] COMMAND`, of Python and of Node.
fn of_dotenv(rest: &[String]) -> Inside {
    let with_word = ["-e", "-c", "-f", "-v", "--file"];
    let rest = after_options(rest, &with_word);
    let rest = if rest.first().is_some_and(|word| word == "run") { &rest[1..] } else { rest };
    command(after_options(rest, &with_word).to_vec())
}

/// The argument of `-c`, also in `-lc`, and the words behind it. Of a shell itself further options may stand between.
fn of_shell(rest: &[String], is_itself: bool) -> Inside {
    let Some(at) = rest.iter().position(|word| is_c_or_upper(word)) else {
        return Inside::default();
    };
    let has_word = |word: &str| !word.starts_with("--") && word.ends_with(['o', 'O']);
    let own = usize::from(is_itself && has_word(&rest[at]));
    let mut at = at + 1 + own + usize::from(rest.get(at + 1).is_some_and(|word| word == "--"));
    while is_itself && let Some(word) = rest.get(at).filter(|w| w.starts_with(['-', '+'])) {
        at += 1 + usize::from(has_word(word));
    }
    let Some(script) = rest.get(at) else { return Inside::default() };
    let words = rest[at + 1..].to_vec();
    Inside { scripts: vec![(script.clone(), words)], ..Inside::default() }
}

/// A script without the names of what it calls as other languages do, `print(x)`: no shell runs that.
fn without_calls(script: &str) -> String {
    let mut out = String::with_capacity(script.len());
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '(' && rest.peek().is_some_and(|next| *next != ')') {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
            let length = out.trim_end_matches(is_name).len();
            if length < out.len() {
                out.truncate(length);
                out.push('_');
            }
        }
        out.push(c);
    }
    out
}

/// The words of `xargs` from its command on.
pub(super) fn after_xargs(rest: &[String]) -> &[String] {
    let with_word = [
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-a",
        "-E",
        "-s",
        "--max-args",
        "--delimiter",
        "--arg-file",
        "--max-procs",
        "--max-lines",
        "--max-chars",
        "--replace",
    ];
    after_options(rest, &with_word)
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
        at += if has_word(word, with_word) { 2 } else { 1 };
    }
    words.get(at..).unwrap_or_default()
}

/// Whether an option's word is the next one, be it the last of several letters.
fn has_word(option: &str, with_word: &[&str]) -> bool {
    if with_word.contains(&option) {
        return true;
    }
    let takes = |letter: char| {
        with_word.iter().any(|known| {
            known.strip_prefix('-').is_some_and(|name| name.len() == 1 && name.starts_with(letter))
        })
    };
    is_short(option)
        && option
            .char_indices()
            .skip(1)
            .find(|(_, letter)| takes(*letter))
            .is_some_and(|(at, letter)| at > 1 && at + letter.len_utf8() == option.len())
}

pub(super) fn is_short(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--")
}

pub(super) fn is_c(word: &str) -> bool {
    is_short(word) && word.contains('c') || word == "--command"
}

/// Whether it is a `-c` that a shell may have, be it among other letters: not that of `tar -czf`.
fn is_shells_c(word: &str) -> bool {
    is_c(word)
        && (word == "--command"
            || word[1..].bytes().all(|letter| b"abcefhiklmnoprstuvxBCEHIPTV".contains(&letter)))
}

/// Whether a text may be a command with something to it; a word alone may as well be what is searched for.
fn is_more_than_a_word(script: &str) -> bool {
    script.trim().contains(|c: char| c.is_whitespace() || "$`<>;&|({".contains(c))
}

fn is_c_or_upper(word: &str) -> bool {
    is_c(word) || word == "-C" || word == "--call"
}

fn is_question(word: &str) -> bool {
    is_short(word) && word.contains(['v', 'V'])
}

fn command(words: Vec<String>) -> Inside {
    let commands = if words.is_empty() { Vec::new() } else { vec![words] };
    Inside { commands, ..Inside::default() }
}

fn script(text: String) -> Inside {
    scripts(std::iter::once(text))
}

fn scripts(texts: impl Iterator<Item = String>) -> Inside {
    let scripts = texts.filter(|text| !text.is_empty()).map(|text| (text, Vec::new())).collect();
    Inside { scripts, ..Inside::default() }
}

pub(super) fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "mksh" | "rbash")
}
