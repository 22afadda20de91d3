//! All printing: words for people, one JSON envelope for machines. Nothing else writes to stdout.
//!
//! The envelope is the pack door's: `{schema_version, ok, command, …, data, warnings, errors}`.

use std::{
    cell::RefCell,
    io::{self, Write},
    process::ExitCode,
};

use anstyle::{AnsiColor, Style};
use keyless_core::Error;
use serde::Serialize;
use serde_json::{Value, json};

/// What answers look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One JSON object on stdout.
    Json,
    /// Words and tables.
    Words,
}

/// The one way to the terminal.
pub(crate) struct Ui {
    format: Format,
    warnings: RefCell<Vec<String>>,
}

impl Ui {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, warnings: RefCell::new(Vec::new()) }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Says something that the user should know; on stderr, and in the envelope.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        if self.format == Format::Words {
            let style = AnsiColor::Yellow.on_default().bold();
            anstream::eprintln!("{style}warning{style:#}: {text}");
        }
        self.warnings.borrow_mut().push(text);
    }

    /// A line for people; machines don't get it.
    pub(crate) fn line(&self, text: &str) {
        if self.format == Format::Words {
            say(&mut anstream::stdout(), &format!("{text}\n"));
        }
    }

    /// A whole answer for machines that brings its own envelope; people don't get it.
    pub(crate) fn machine(&self, text: &str) {
        if self.format == Format::Json {
            Self::verbatim(text);
        }
    }

    /// A line whose form another program's protocol sets.
    pub(crate) fn verbatim(text: &str) {
        say(&mut io::stdout(), &format!("{text}\n"));
    }

    /// The answer: `words` for people, `data` for machines.
    pub(crate) fn answer(&self, command: &str, data: &impl Serialize, words: &str) {
        match self.format {
            Format::Words => say(&mut anstream::stdout(), words),
            Format::Json => {
                let data = serde_json::to_value(data).unwrap_or(Value::Null);
                let envelope = self.envelope(command, true, &data, &[]);
                Self::verbatim(&format!("{envelope:#}"));
            }
        }
    }

    /// An error, and the exit status that goes with it.
    pub(crate) fn fail(&self, command: &str, error: &Error) -> ExitCode {
        let remediation = error.code().remediation();
        match self.format {
            Format::Json => {
                let fault = json!({
                    "code": error.code().as_str(),
                    "message": error.message(),
                    "details": {
                        "nl_code": error.code().nl_code(),
                        "remediation": remediation,
                    },
                });
                let envelope = self.envelope(command, false, &json!({}), &[fault]);
                Self::verbatim(&format!("{envelope:#}"));
            }
            Format::Words => {
                anstream::eprint!("{}", fault_words(error));
            }
        }
        ExitCode::from(error.code().exit() as u8)
    }

    fn envelope(&self, command: &str, ok: bool, data: &Value, errors: &[Value]) -> Value {
        json!({
            "schema_version": 1,
            "ok": ok,
            "command": command.replace(' ', "."),
            "command_id": command,
            "command_path": command.split(' ').collect::<Vec<_>>(),
            "version": env!("CARGO_PKG_VERSION"),
            "data": data,
            "warnings": *self.warnings.borrow(),
            "errors": errors,
        })
    }
}

/// Writes an answer. To a reader who has gone (`| head`), nothing is to be said.
fn say(to: &mut impl Write, text: &str) {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            anstream::eprintln!("error: the answer can't be written: {error}");
        }
        _ => {}
    }
}

/// What happened, why, and what to do next.
fn fault_words(error: &Error) -> String {
    let red = AnsiColor::Red.on_default().bold();
    let cyan = AnsiColor::Cyan.on_default();
    let next = error.code().remediation().action;
    format!("{red}error{red:#}: {}\n{cyan}next{cyan:#}:  {next}.\n", error.message())
}

/// A line of a running service's log, on stderr.
pub(crate) fn log(line: &str) {
    anstream::eprintln!("{line}");
}

/// Rows under a head, in columns as wide as their widest cell, two spaces apart.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let bold = Style::new().bold();
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = format!("{bold}{}{bold:#}\n", row_text(&head, &widths));
    for row in rows {
        text.push_str(&row_text(row, &widths));
        text.push('\n');
    }
    text
}

fn row_text(row: &[String], widths: &[usize]) -> String {
    let pad = |(cell, width): (&String, &usize)| format!("{cell:<width$}");
    let cells: Vec<String> = row.iter().zip(widths).map(pad).collect();
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use keyless_core::{Code, SafeText};

    use super::*;

    /// Every error that a person can meet.
    #[test]
    fn every_error_says_what_why_and_what_next() {
        for code in Code::ALL {
            let error = Error::with(*code, SafeText::words("this very case"));
            let words = anstream::adapter::strip_str(&fault_words(&error)).to_string();
            let (what, next) = words.split_once("\nnext:  ").unwrap_or_else(|| panic!("{words}"));
            assert!(what.starts_with("error: ") && what.ends_with(". (this very case)"), "{words}");
            assert!(next.len() > 8 && next.ends_with(".\n") && !next.ends_with("..\n"), "{words}");
            assert!(words.lines().all(|line| line.len() < 160), "{words}");
        }
    }

    #[test]
    fn columns_line_up() {
        let rows =
            vec![vec!["a".to_owned(), "x".to_owned()], vec!["long".to_owned(), String::new()]];
        let plain = anstream::adapter::strip_str(&table(&["N", "V"], &rows)).to_string();
        assert_eq!(plain, "N     V\na     x\nlong\n");
    }
}
