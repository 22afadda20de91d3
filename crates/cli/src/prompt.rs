//! Asks the person at the terminal. Nothing that is typed here is echoed or kept in history.

mod hidden;

use std::{
    env, fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText, SecretPath};
use keyless_daemon::{
    KEYLESS_PASSPHRASE_FILE, Places, check_place, ci, read_passphrase_file,
    remember_passphrase_file,
    vault::{Factor, Keyfile, Passphrase, drop_mark},
};
use zeroize::Zeroizing;

use crate::{
    args::{FactorArgs, ValueArgs},
    commands::unwritable,
    ui::Ui,
    visible::visible,
};

/// How often a person may type what turns out to be wrong.
const TRIES: u8 = 3;

/// The largest value, in bytes.
const MAX_VALUE: usize = 64 * 1024;

/// How often something that is typed is asked for, where it turns out to be wrong. Whoever goes on typing after that would
/// type a secret into a shell, and into its history: what was typed by then is thrown away.
pub(crate) struct Tries(u8);

impl Tries {
    /// What comes from a file would be wrong each time.
    pub(crate) fn of(is_typed: bool) -> Self {
        Self(if is_typed { TRIES } else { 0 })
    }

    /// Whether to ask once more, since `is_wrong` says that `error` is about what was typed; the person is told.
    pub(crate) fn again(&mut self, error: &Error, is_wrong: impl Fn(Code) -> bool) -> bool {
        if self.0 == 0 {
            return false;
        }
        hidden::discard();
        self.0 -= 1;
        let again = self.0 > 0 && is_wrong(error.code());
        if again {
            Ui::fault(&error.message(), Some("type it again, or Ctrl-C to leave"));
        }
        again
    }
}

/// The file that holds the passphrase, if one was named by option or environment.
pub(crate) fn passphrase_file(factor: &FactorArgs) -> Option<PathBuf> {
    let named = factor.passphrase_file.clone();
    named.or_else(|| env::var_os(KEYLESS_PASSPHRASE_FILE).filter(|f| !f.is_empty()).map(Into::into))
}

/// The file that opens the store, if one was named: a passphrase's or a key's.
pub(crate) fn factor_file(factor: &FactorArgs) -> Option<PathBuf> {
    factor.keyfile.clone().or_else(|| passphrase_file(factor))
}

/// What opens the store: a key file, a passphrase from a file, else one from a prompt.
pub(crate) fn factor(factor: &FactorArgs) -> Result<Factor, Error> {
    match &factor.keyfile {
        Some(file) => Ok(Factor::Keyfile(keyfile(file)?)),
        None => Ok(Factor::Passphrase(Passphrase::new(passphrase(factor)?))),
    }
}

/// A key file, which no agent gets to see from now on.
pub(crate) fn keyfile(file: &Path) -> Result<Keyfile, Error> {
    let key = Keyfile::read(file)?;
    remember_passphrase_file(&Places::from_environment()?, file);
    Ok(key)
}

/// A new key file, which no agent ever gets to see.
pub(crate) fn new_keyfile(file: &Path) -> Result<Keyfile, Error> {
    check_place(file).map_err(|error| unwritable(file, &error))?;
    remember_passphrase_file(&Places::from_environment()?, file);
    Keyfile::create(file)
}

/// The store's passphrase: from a file, else from a prompt.
pub(crate) fn passphrase(factor: &FactorArgs) -> Result<Zeroizing<String>, Error> {
    match passphrase_file(factor) {
        Some(file) => passphrase_from(&file),
        None => hidden("Passphrase: ", "--passphrase-file FILE"),
    }
}

/// The passphrase in a file, which no agent gets to see from now on.
pub(crate) fn passphrase_from(file: &Path) -> Result<Zeroizing<String>, Error> {
    let passphrase = read_passphrase_file(file)?;
    remember_passphrase_file(&Places::from_environment()?, file);
    Ok(passphrase)
}

/// A passphrase for a new store: from a file, else typed twice.
pub(crate) fn new_passphrase(factor: &FactorArgs) -> Result<Zeroizing<String>, Error> {
    if let Some(file) = passphrase_file(factor) {
        return passphrase_from(&file);
    }
    typed_passphrase("--passphrase-file FILE")
}

/// A new passphrase, typed twice; asked for again while it is too short, or was typed in two ways.
/// `other_way` is the option that gives it as well.
pub(crate) fn typed_passphrase(other_way: &'static str) -> Result<Zeroizing<String>, Error> {
    loop {
        let first = hidden("New passphrase (12 characters or more): ", other_way)?;
        if let Err(error) = Passphrase::new(first.clone()).check_strength() {
            Ui::fault(&error.message(), Some(error.code().remediation().action));
            continue;
        }
        if hidden("Once more: ", other_way)? == first {
            return Ok(first);
        }
        Ui::fault("The two passphrases differ.", Some("type it twice, the same each time"));
    }
}

/// The six digits that the authenticator app shows.
pub(crate) fn totp_code() -> Result<Zeroizing<String>, Error> {
    typed_alone("Code (six digits): ", "the six digits are typed at a terminal alone")
}

/// The 24 words.
pub(crate) fn recovery_phrase() -> Result<Zeroizing<String>, Error> {
    let words = "the 24 words are typed at a terminal alone; a passphrase or key file opens the store without one";
    typed_alone("Recovery phrase (24 words): ", words)
}

/// A secret's value: from stdin, a file, or a prompt. Of a stream, a byte order mark at its start and the line end of a
/// single line are dropped; several lines are a key, a certificate or a document, and kept to the byte.
pub(crate) fn value(ui: &Ui, args: &ValueArgs) -> Result<Zeroizing<Vec<u8>>, Error> {
    let bytes = match &args.from_file {
        Some(path) => read_limited(&mut open(path)?)?,
        None if args.value_stdin => read_limited(&mut io::stdin().lock())?,
        None => {
            let typed = hidden("Value (not shown): ", "--value-stdin or --from-file FILE")?;
            return Ok(Zeroizing::new(typed.as_bytes().to_vec()));
        }
    };
    Ok(without_line_end(ui, without_mark(ui, bytes)))
}

/// A secret's value, typed without echo; nothing when the line is empty.
pub(crate) fn value_or_nothing() -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let typed = hidden(
        "Value (not shown; empty refuses): ",
        "--accept with --value-stdin or --from-file FILE",
    )?;
    Ok((!typed.is_empty()).then(|| Zeroizing::new(typed.as_bytes().to_vec())))
}

/// The value of a secret that a project needs, once it is said at the same terminal where it may go; nothing when the line is
/// empty.
pub(crate) fn value_of(
    path: &SecretPath,
    name: &str,
    aim: &str,
) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let question = format!("{aim}\n{path} {name} (not shown; empty skips): ");
    let typed = hidden(&question, "--yes, which leaves it missing")?;
    Ok((!typed.is_empty()).then(|| Zeroizing::new(typed.as_bytes().to_vec())))
}

/// Shows something on a screen of its own at the controlling terminal, until the person has seen it.
pub(crate) fn show(text: &str) -> Result<(), Error> {
    hidden::show(text).map_err(|_| {
        Error::with(Code::TerminalRequired, SafeText::words("a value is shown at a terminal alone"))
    })
}

/// Shows what is told once on a screen of its own, and asks whether it is written down; no answer is none.
pub(crate) fn written_down(text: &str) -> Result<bool, Error> {
    let question = Zeroizing::new(format!("{text}\n\nIs it written down? [y/N] "));
    let answer = hidden::answer(&question).map_err(|_| {
        Error::with(Code::TerminalRequired, SafeText::words("it is shown at a terminal alone"))
    })?;
    Ok(answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")))
}

/// A line that is no secret, typed at the controlling terminal, whatever stdin is.
pub(crate) fn line(question: &str) -> Result<String, Error> {
    need_person()?;
    let ask = || -> io::Result<String> {
        let mut terminal = fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        terminal.write_all(question.as_bytes())?;
        let mut line = String::new();
        if io::BufRead::read_line(&mut io::BufReader::new(terminal), &mut line)? == 0 {
            // Ctrl-D: whoever was asked goes without an answer.
            return Err(hidden::leave());
        }
        Ok(line)
    };
    ask().map_err(|_| {
        let words = "give the answer by option: --once, --session, --deny or --accept";
        Error::with(Code::TerminalRequired, SafeText::words(words))
    })
}

/// Asks a yes-or-no question; without a terminal the answer is an error that names `--yes`.
pub(crate) fn confirm(question: &str) -> Result<bool, Error> {
    acknowledged(question, "--yes to go on without being asked")
}

/// Asks a yes-or-no question; without a terminal the answer is an error that names another way.
pub(crate) fn acknowledged(question: &str, other_way: &'static str) -> Result<bool, Error> {
    need_terminal(other_way)?;
    anstream::eprint!("{} [y/N] ", visible(question));
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// An error unless somebody can answer.
pub(crate) fn need_terminal(other_way: &'static str) -> Result<(), Error> {
    need_person()?;
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Error::with(Code::TerminalRequired, SafeText::words("give ").and(other_way)))
}

/// An error where nobody is to be asked, terminal or not.
fn need_person() -> Result<(), Error> {
    if ci::is_on() { Err(ci::refusal()) } else { Ok(()) }
}

fn hidden(question: &str, other_way: &'static str) -> Result<Zeroizing<String>, Error> {
    need_person()?;
    hidden::ask(question)
        .map_err(|_| Error::with(Code::TerminalRequired, SafeText::words("give ").and(other_way)))
}

/// What no option gives: `why` says so where there is no terminal.
fn typed_alone(question: &str, why: &'static str) -> Result<Zeroizing<String>, Error> {
    need_person()?;
    hidden::ask(question).map_err(|_| Error::with(Code::TerminalRequired, SafeText::words(why)))
}

fn open(path: &Path) -> Result<fs::File, Error> {
    fs::File::open(path).map_err(|error| {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
    })
}

fn read_limited(from: &mut impl Read) -> Result<Zeroizing<Vec<u8>>, Error> {
    // Room for everything at once, so that growing leaves no copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_VALUE + 1));
    from.take(MAX_VALUE as u64 + 1).read_to_end(&mut bytes).map_err(|error| {
        Error::with(Code::PathUnusable, SafeText::words("the value: ").and(error.kind()))
    })?;
    if bytes.len() > MAX_VALUE {
        let detail = SafeText::words("a value has at most 65536 bytes");
        return Err(Error::with(Code::ValueRefused, detail));
    }
    Ok(bytes)
}

fn without_mark(ui: &Ui, mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    if drop_mark(&mut bytes) {
        ui.warn("the value began with a byte order mark, which was left out");
    }
    bytes
}

fn without_line_end(ui: &Ui, mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    // As of a value in a file that the broker reads (`vault/src/source/file.rs`): OpenSSH reads no key without its last.
    let Some(line) = bytes.strip_suffix(b"\n") else { return bytes };
    if !line.contains(&b'\n') {
        let kept = line.strip_suffix(b"\r").unwrap_or(line).len();
        bytes.truncate(kept);
        ui.warn("the value ended with a line end, which was left out");
    }
    bytes
}
