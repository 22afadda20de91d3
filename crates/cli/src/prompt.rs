//! Asks the person at the terminal. Nothing that is typed here is echoed or kept in history.

mod hidden;

use std::{
    env, fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{KEYLESS_PASSPHRASE_FILE, read_passphrase_file};
use zeroize::Zeroizing;

use crate::{
    args::{FactorArgs, ValueArgs},
    ui::Ui,
};

/// The largest value, in bytes.
const MAX_VALUE: usize = 64 * 1024;

/// The file that holds the passphrase, if one was named by option or environment.
pub(crate) fn passphrase_file(factor: &FactorArgs) -> Option<PathBuf> {
    let named = factor.passphrase_file.clone();
    named.or_else(|| env::var_os(KEYLESS_PASSPHRASE_FILE).filter(|f| !f.is_empty()).map(Into::into))
}

/// The store's passphrase: from a file, else from a prompt.
pub(crate) fn passphrase(factor: &FactorArgs) -> Result<Zeroizing<String>, Error> {
    match passphrase_file(factor) {
        Some(file) => read_passphrase_file(&file),
        None => hidden("Passphrase: ", "--passphrase-file FILE"),
    }
}

/// A passphrase for a new store: from a file, else typed twice.
pub(crate) fn new_passphrase(factor: &FactorArgs) -> Result<Zeroizing<String>, Error> {
    if let Some(file) = passphrase_file(factor) {
        return read_passphrase_file(&file);
    }
    let first = hidden("New passphrase (12 characters or more): ", "--passphrase-file FILE")?;
    let second = hidden("Once more: ", "--passphrase-file FILE")?;
    if first != second {
        let detail = SafeText::words("the two passphrases differ");
        return Err(Error::with(Code::Usage, detail));
    }
    Ok(first)
}

/// The 24 words.
pub(crate) fn recovery_phrase() -> Result<Zeroizing<String>, Error> {
    hidden("Recovery phrase (24 words): ", "a terminal")
}

/// A secret's value: from stdin, a file, or a prompt. One trailing line end of a stream is dropped.
pub(crate) fn value(ui: &Ui, args: &ValueArgs) -> Result<Zeroizing<Vec<u8>>, Error> {
    let bytes = match &args.from_file {
        Some(path) => read_limited(&mut open(path)?)?,
        None if args.value_stdin => read_limited(&mut io::stdin().lock())?,
        None => {
            let typed = hidden("Value (not shown): ", "--value-stdin or --from-file FILE")?;
            return Ok(Zeroizing::new(typed.as_bytes().to_vec()));
        }
    };
    Ok(without_line_end(ui, bytes))
}

/// Asks a yes-or-no question; without a terminal the answer is an error that names `--yes`.
pub(crate) fn confirm(question: &str) -> Result<bool, Error> {
    if !io::stdin().is_terminal() {
        let detail = SafeText::words("give --yes to go on without being asked");
        return Err(Error::with(Code::TerminalRequired, detail));
    }
    anstream::eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn hidden(question: &str, other_way: &'static str) -> Result<Zeroizing<String>, Error> {
    hidden::ask(question)
        .map_err(|_| Error::with(Code::TerminalRequired, SafeText::words("give ").and(other_way)))
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

fn without_line_end(ui: &Ui, mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
        ui.warn("the value ended with a line end, which was left out");
    }
    bytes
}
