//! `pack record` and `pack score`: what agents report of the modules they used.

use std::{
    fmt::Write as _,
    io::{Read as _, stdin},
};

use keyless_pack::{Code, MAX_EVENT, PackError, RecordData, ScoreData, commands};

use super::{Call, Outcome};

impl Call<'_> {
    pub(super) fn record(&self) -> Outcome {
        // The event comes on stdin, so nobody can be asked there; a person who pipes one in means it.
        let yes = self.args.global.yes || !self.ui.is_json();
        commands::confirmed(yes, "record")?;
        let answer = commands::record(&self.surroundings, &self.request, &event()?, yes)?;
        self.answer(answer, recorded)
    }

    pub(super) fn score(&self) -> Outcome {
        self.answer(commands::score(&self.surroundings, &self.request)?, scored)
    }
}

fn event() -> Result<String, PackError> {
    let fault = |message: String| {
        PackError::new(Code::ConfigInvalid, message).hint(
            "give one JSON value on stdin, such as {\"module_id\":\"skill:x\",\"success\":true}",
        )
    };
    let mut text = String::new();
    let limit = u64::try_from(MAX_EVENT).unwrap_or(u64::MAX) + 1;
    stdin()
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|error| fault(format!("can't read the event from stdin: {error}")))?;
    if text.len() > MAX_EVENT {
        return Err(fault("the event is longer than 1 MiB".to_owned()));
    }
    Ok(text)
}

fn recorded(data: &RecordData) -> String {
    format!("Recorded in {}\n", data.path)
}

fn scored(data: &ScoreData) -> String {
    let mut text = String::new();
    let width = data.modules.iter().map(|row| row.module_id.len()).max().unwrap_or(0);
    for row in &data.modules {
        let id = &row.module_id;
        match (row.failure_rate, &row.last_seen_at) {
            (Some(rate), Some(seen)) => writeln!(
                text,
                "{id:<width$}  {} of {} failed ({:.1} %)  last: {seen}",
                row.failures,
                row.total,
                rate * 100.0
            ),
            _ => writeln!(text, "{id:<width$}  never seen"),
        }
        .expect("a string");
    }
    if text.is_empty() { "No events and no modules.\n".to_owned() } else { text }
}
