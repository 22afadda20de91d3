//! All printing: words for people, one JSON envelope for machines. Nothing else writes to stdout.
//! What people read comes by `visible.rs`, so that nothing in it hides.
//!
//! The envelope is the pack door's: `{schema_version, ok, command, …, data, warnings, errors}`.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    pin::pin,
    process::ExitCode,
    sync::OnceLock,
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use keyless_core::{
    Code, Error, Exit, SafeText,
    nl_message::{NlFault, Shape},
};
use keyless_daemon::{ci, next_at_hand, to_the_person};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    rows::{columns, room},
    visible::{one_line, visible},
};

/// What takes longer is told to be under way.
const PATIENCE: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(100);
/// No column is cut to less: below it a row is told line by line.
const LEAST_COLUMN: usize = 12;
/// Columns that are never cut, beside the first: half a state, or half an id, says nothing, or something else.
const WHOLE_COLUMNS: &[&str] =
    &["ANSWER", "ID", "OUTCOME", "PATH", "PATTERN", "RESULT", "STATE", "STATUS"];

/// Why some answer could not be written, though there was somebody to read it.
static UNWRITTEN: OnceLock<Error> = OnceLock::new();

/// Verbs whose answers are the NL Protocol's: where there is none, the error is in its form beside ours.
const ACTIONS: [&str; 3] = ["action dry-run", "action submit", "exec"];

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
    hushed: bool,
    /// Whether the answer to machines is one object a line, and a failure the last of them.
    in_lines: Cell<bool>,
    warnings: RefCell<Vec<String>>,
}

impl Ui {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            hushed: false,
            in_lines: Cell::new(false),
            warnings: RefCell::new(Vec::new()),
        }
    }

    /// Without warnings and progress.
    pub(crate) fn hushed(self) -> Self {
        Self { hushed: true, ..self }
    }

    /// Has a failure stand on one line as well, for machines that read the answer by lines.
    pub(crate) fn answer_in_lines(&self) {
        self.in_lines.set(true);
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Says something that the user should know; on stderr, and in the envelope.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        if self.format == Format::Words && !self.hushed {
            let style = AnsiColor::Yellow.on_default().bold();
            let shown = text.replace('\n', "\n         ");
            anstream::eprintln!("{style}warning{style:#}: {}", visible(&shown));
        }
        self.warnings.borrow_mut().push(text);
    }

    /// What was warned of since this was asked last, for answers in several lines; no later envelope has it.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    /// Tells a person at a terminal something beside the answer, on stderr; programs don't get it.
    pub(crate) fn aside(&self, text: &str) {
        if self.format == Format::Words && !self.hushed && io::stderr().is_terminal() {
            anstream::eprintln!("{}", visible(text));
        }
    }

    /// Waits for `work`; after half a second people are told what it is.
    pub(crate) async fn wait<T>(&self, what: &'static str, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        let progress = self.progress(what);
        let done = work.await;
        progress.finish_and_clear();
        done
    }

    fn progress(&self, what: &'static str) -> ProgressBar {
        if self.hushed || self.format == Format::Json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let progress = ProgressBar::new_spinner().with_message(what);
        progress.enable_steady_tick(STEP);
        progress
    }

    /// A line for people; machines don't get it.
    pub(crate) fn line(&self, text: &str) {
        if self.format == Format::Words {
            say(&mut anstream::stdout(), &visible(&format!("{text}\n")));
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

    /// Lines for another program: byte for byte, but at a terminal, where nothing may hide. Fails when they can't be
    /// written.
    pub(crate) fn export(lines: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let shown = if stdout.is_terminal() { visible(lines) } else { Cow::Borrowed(lines) };
        stdout.write_all(shown.as_bytes())?;
        stdout.flush()
    }

    /// The answer: `words` for people, `data` for machines.
    pub(crate) fn answer(&self, command: &str, data: &impl Serialize, words: &str) {
        self.conclude(command, Ok(()), data, words);
    }

    /// The answer of a command that examines something, as [`Self::answer`], and its exit status: where that is bad, the
    /// envelope is not `ok`, and without errors, since the command itself did not fail.
    pub(crate) fn conclude(
        &self,
        command: &str,
        outcome: Result<(), Exit>,
        data: &impl Serialize,
        words: &str,
    ) -> ExitCode {
        match self.format {
            Format::Words => say(&mut anstream::stdout(), &visible(words)),
            Format::Json => {
                let data = serde_json::to_value(data).unwrap_or(Value::Null);
                let envelope = self.envelope(command, outcome.is_ok(), &data, &[]);
                Self::verbatim(&format!("{envelope:#}"));
            }
        }
        outcome.map_or_else(|exit| ExitCode::from(exit as u8), |()| ExitCode::SUCCESS)
    }

    /// The exit status of a command that did what it was asked: a failure all the same where its answer was lost, as a
    /// full disk has it.
    pub(crate) fn done(status: ExitCode) -> ExitCode {
        UNWRITTEN.get().map_or(status, |error| ExitCode::from(error.code().exit() as u8))
    }

    /// An error, and the exit status that goes with it.
    pub(crate) fn fail(&self, command: &str, error: &Error) -> ExitCode {
        self.fail_with(command, error, &json!({}))
    }

    /// As [`Self::fail`], with `data` for machines.
    pub(crate) fn fail_with(&self, command: &str, error: &Error, data: &Value) -> ExitCode {
        self.fail_whole(command, error, &next_step(command, error), data)
    }

    /// As [`Self::fail`], with `next` as the next step in place of the error's own.
    pub(crate) fn fail_leading_to(&self, command: &str, error: &Error, next: &str) -> ExitCode {
        self.fail_whole(command, error, next, &json!({}))
    }

    fn fail_whole(&self, command: &str, error: &Error, next: &str, data: &Value) -> ExitCode {
        match self.format {
            Format::Json => {
                let mut remediation = json!(error.code().remediation());
                remediation["action"] = json!(next);
                let mut fault = json!({
                    "code": error.code().as_str(),
                    "message": error.message(),
                    "details": {
                        "nl_code": error.code().nl_code(),
                        "remediation": remediation,
                    },
                });
                if ACTIONS.contains(&command) {
                    fault["details"]["nl_error"] = NlFault::from(error.clone()).body(Shape::Bare);
                }
                let envelope = self.envelope(command, false, data, &[fault]);
                if self.in_lines.get() {
                    Self::verbatim(&envelope.to_string());
                } else {
                    Self::verbatim(&format!("{envelope:#}"));
                }
            }
            Format::Words => {
                anstream::eprint!("{}", visible(&told(&error.message(), Some(next))));
            }
        }
        ExitCode::from(error.code().exit() as u8)
    }

    /// What happened and what to do next, where the fault came in another's answer.
    pub(crate) fn fault(message: &str, next: Option<&str>) {
        anstream::eprint!("{}", visible(&told(message, next)));
    }

    /// A command line that can't be read, and the exit status that goes with it. The lines show its form, so they stand
    /// as they are.
    pub(crate) fn refusal(command: &str, lines: &str) -> ExitCode {
        let (red, cyan) = (AnsiColor::Red.on_default().bold(), AnsiColor::Cyan.on_default());
        let next = next_step(command, &Code::Usage.into());
        let text = format!("{red}error{red:#}: {lines}\n{cyan}next{cyan:#}:  {next}.\n");
        anstream::eprint!("{}", visible(&text));
        ExitCode::from(Code::Usage.exit() as u8)
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
            UNWRITTEN.get_or_init(|| unwritten(&error));
            anstream::eprintln!("error: the answer can't be written: {error}");
        }
        _ => {}
    }
}

/// Lines for another program that could not be written.
pub(crate) fn unwritten(error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::DiskFull,
        _ => Code::PathUnusable,
    };
    Error::with(code, SafeText::words("stdout: ").and(error.kind()))
}

/// What happened, why, and what to do next, where there is room for a sentence or two and no verb to name.
pub(crate) fn in_sentences(error: &Error) -> String {
    format!("{} Next: {}.", error.message(), next_at_hand(error.code()))
}

fn next_step(command: &str, error: &Error) -> String {
    match error.code() {
        // The verb's own page says more than the list of verbs.
        Code::PathUnusable if error.detail().as_str().ends_with("it is there already") => {
            "name another place, or take away what is there".to_owned()
        }
        Code::Usage if command != "keyless" => format!("see keyless {command} --help"),
        code if ci::is_on() => ci::next_step(code).to_owned(),
        code if io::stdin().is_terminal() => to_the_person(code).to_owned(),
        code => code.remediation().action.to_owned(),
    }
}

fn told(message: &str, next: Option<&str>) -> String {
    let red = AnsiColor::Red.on_default().bold();
    let cyan = AnsiColor::Cyan.on_default();
    let next = next.map(|next| format!("{cyan}next{cyan:#}:  {next}.\n")).unwrap_or_default();
    // Where somebody else's words have lines, these are seen to go on.
    let message = message.replace('\n', "\n       ");
    format!("{red}error{red:#}: {message}\n{next}")
}

/// Six words a row, so that they can be copied by hand.
pub(crate) fn in_rows(phrase: &str) -> String {
    let words: Vec<&str> = phrase.split(' ').collect();
    let rows: Vec<String> = words.chunks(6).map(|row| format!("    {}", row.join(" "))).collect();
    rows.join("\n")
}

/// A line of a running service's log, on stderr.
pub(crate) fn log(line: &str) {
    anstream::eprintln!("{}", visible(line));
}

/// An object's fields as people read them, one a line; those that say nothing are left out.
pub(crate) fn fields(data: &Value) -> String {
    let says = |value: &Value| !value.is_null() && !value.as_object().is_some_and(Map::is_empty);
    let all = data.as_object().into_iter().flatten().filter(|(_, value)| says(value));
    let mut text = String::new();
    for (name, value) in all {
        let _ = writeln!(text, "{:<16} {}", format!("{name}:"), plain(value));
    }
    text
}

/// A field as people read it: words without quotes, lists with commas.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let pair = |(name, value)| format!("{name} {}", plain(value));
            fields.iter().map(pair).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The widest that a column is made for the sake of one cell: what is longer in a pipe stands out of its column.
const WIDEST_COLUMN: usize = 512;

/// Rows under a head, in columns as wide as their widest cell, two spaces apart. At a terminal that is narrower the
/// widest columns are cut, but never the first, which says what a row is, nor one of [`WHOLE_COLUMNS`]; where too little
/// would be left of the others, each row is told line by line. A pipe gets all of it.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    table_within(room().unwrap_or(usize::MAX), head, rows)
}

fn table_within(room: usize, head: &[&str], rows: &[Vec<String>]) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| one_line(cell).into_owned()).collect();
    let rows: &[Vec<String>] = &rows.iter().map(shown).collect::<Vec<_>>();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.chain([columns(head[column])]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..head.len()).map(width).collect();
    let is_whole = |column| column == 0 || WHOLE_COLUMNS.contains(&head[column]);
    if !cut(&mut widths, is_whole, room) {
        return rows.iter().map(|row| told_by_lines(room, head, row)).collect();
    }
    let bold = Style::new().bold();
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = format!("{bold}{}{bold:#}\n", row_text(&head, &widths));
    for row in rows {
        text.push_str(&row_text(row, &widths));
        text.push('\n');
    }
    text
}

/// Takes from the widest column that may be cut, time and again, until the row fits; `false` when it never does.
fn cut(widths: &mut [usize], is_whole: impl Fn(usize) -> bool, room: usize) -> bool {
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > room {
        let others = widths.iter_mut().enumerate().filter(|(column, _)| !is_whole(*column));
        match others.map(|(_, width)| width).max() {
            Some(width) if *width > LEAST_COLUMN => *width -= 1,
            _ => return false,
        }
    }
    true
}

/// A row's first cell, and each of the others behind its column's name. Nothing is cut: what is long goes on below.
fn told_by_lines(room: usize, head: &[&str], row: &[String]) -> String {
    let bold = Style::new().bold();
    let indent = 4 + head.iter().map(|name| name.trim().chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for line in broken(&row[0], room) {
        let _ = writeln!(text, "{bold}{line}{bold:#}");
    }
    for (name, cell) in head.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
        for (index, line) in broken(cell, room.saturating_sub(indent)).iter().enumerate() {
            let name = if index == 0 { name.trim() } else { "" };
            let _ = writeln!(text, "  {name:<width$}  {line}", width = indent - 4);
        }
    }
    text
}

fn broken(text: &str, room: usize) -> Vec<String> {
    let room = room.max(LEAST_COLUMN);
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        // Something of it each time: the room is wider than any letter.
        let (line, more) = rest.split_at(beginning(rest, room).len());
        lines.push(line.to_owned());
        rest = more;
    }
    lines
}

/// As much of a text as fits.
fn beginning(text: &str, room: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(at, letter)| {
        used += columns(&text[*at..*at + letter.len_utf8()]);
        used > room
    });
    end.map_or(text, |(end, _)| &text[..end])
}

fn row_text(row: &[String], widths: &[usize]) -> String {
    let pad = |(cell, width): (&String, &usize)| {
        let (width, wide) = (*width, columns(cell));
        if wide <= width {
            return format!("{cell}{}", " ".repeat(width.min(WIDEST_COLUMN).saturating_sub(wide)));
        }
        let kept = beginning(cell, width - 1);
        format!("{kept}…{}", " ".repeat(width - 1 - columns(kept)))
    };
    let cells: Vec<String> = row.iter().zip(widths).map(pad).collect();
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever somebody has made of the store.
    #[test]
    fn a_cell_of_any_length_goes_into_a_pipe() {
        let long = "x".repeat(100_000);
        let rows = [vec![long.clone(), "1".to_owned()], vec!["y".to_owned(), "2".to_owned()]];
        let text = table_within(usize::MAX, &["PATH", "NUMBER"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}  1"));
        assert!(lines[2].starts_with("y ") && lines[2].ends_with(" 2") && lines[2].len() < 600);
    }

    /// Every error that a person can meet.
    #[test]
    fn every_error_says_what_why_and_what_next() {
        for code in Code::ALL {
            let error = Error::with(*code, SafeText::words("this very case"));
            let words = told(&error.message(), Some(&next_step("secret list", &error)));
            let words = anstream::adapter::strip_str(&words).to_string();
            let (what, next) = words.split_once("\nnext:  ").unwrap_or_else(|| panic!("{words}"));
            assert!(what.starts_with("error: ") && what.ends_with(". (this very case)"), "{words}");
            assert!(next.len() > 8 && next.ends_with(".\n") && !next.ends_with("..\n"), "{words}");
            assert!(words.lines().all(|line| line.len() < 160), "{words}");
        }
    }

    #[test]
    fn a_table_fits_where_it_is_shown() {
        let rows =
            vec![vec!["team/github/token".to_owned(), "api.github.com, github.com".to_owned()]];
        let within = |room| {
            let text = table_within(room, &["PATH", "GOES TO"], &rows);
            anstream::adapter::strip_str(&text).to_string()
        };
        assert!(within(45).ends_with("team/github/token  api.github.com, github.com\n"));
        assert!(
            within(40).ends_with("team/github/token  api.github.com, gith…\n"),
            "{}",
            within(40)
        );
        assert!(within(31).ends_with("team/github/token  api.github.…\n"), "{}", within(31));
        let lines =
            "team/github/token\n  GOES TO  api.github.c\n           om, github.c\n           om\n";
        assert_eq!(within(23), lines);
        // What says which row it is, and how it stands, is whole at any width.
        let (id, state) = ("prov-0123456789ab", "expires in 3 days, and is compromised");
        let row = ["2026-11-27 10:00", id, "api.github.com, github.com", state].map(str::to_owned);
        for room in 1..200 {
            let text =
                table_within(room, &["TIME (UTC)", "ID", "GOES TO", "STATE"], &[row.to_vec()]);
            let text = anstream::adapter::strip_str(&text).to_string();
            let is_table = text.starts_with("TIME");
            assert!(!is_table || text.contains(id) && text.contains(state), "{room}: {text}");
            assert_eq!(is_table, room >= 16 + id.len() + 12 + state.len() + 6, "{room}: {text}");
        }
        assert_eq!(within(2).lines().next(), Some("team/github/"));
    }

    #[test]
    fn columns_line_up() {
        let rows =
            vec![vec!["a".to_owned(), "x".to_owned()], vec!["long".to_owned(), String::new()]];
        let plain = anstream::adapter::strip_str(&table(&["N", "V"], &rows)).to_string();
        assert_eq!(plain, "N     V\na     x\nlong\n");
    }
}
