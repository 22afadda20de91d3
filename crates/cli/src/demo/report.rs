//! What came of it: a table for people, one object for machines, and the search for the value.

use keyless_core::Error;
use keyless_testkit::Origin;
use serde_json::{Value, json};

use super::{
    agent::Seen,
    scene::{EVIL, Scene},
    steps::{Evidence, Server, Step},
};
use crate::ui::{Ui, table};

/// The end of the story.
pub(super) struct Report {
    lines: Vec<Line>,
    /// Where the value was seen on the agent's side or at the attacker's.
    leaks: Vec<String>,
    placeholder: String,
    searched: usize,
    without_jail: Option<WithoutJail>,
}

/// What there is to say where the agent was in no jail.
pub(super) struct WithoutJail {
    /// Why none can be made here.
    pub(super) why: Error,
    /// The steps that were not played, by name.
    pub(super) left_out: Vec<&'static str>,
}

struct Line {
    name: &'static str,
    expected: &'static str,
    server: &'static str,
    outcome: Result<String, String>,
}

impl Report {
    /// Judges every step and searches everything for the value.
    pub(super) fn judge(
        scene: &Scene,
        steps: &[Step],
        seen: &Seen,
        without_jail: Option<WithoutJail>,
    ) -> Self {
        let placeholder = placeholder_in(&seen.terminal);
        let (lines, leaks) = (Vec::new(), Vec::new());
        let mut report = Self { lines, leaks, placeholder, searched: 0, without_jail };
        for (step, (status, printed)) in steps.iter().zip(&seen.steps) {
            let line = report.line(scene, step, *status, printed);
            report.lines.push(line);
        }
        report.search(scene, seen);
        report
    }

    /// Whether every step that was played came out as expected and the value was seen nowhere.
    pub(super) fn is_ok(&self) -> bool {
        self.leaks.is_empty() && self.lines.iter().all(|line| line.outcome.is_ok())
    }

    /// Why not everything was played, if so.
    pub(super) fn without_jail(&self) -> Option<&WithoutJail> {
        self.without_jail.as_ref()
    }

    fn left_out(&self) -> &[&'static str] {
        self.without_jail.as_ref().map_or(&[], |without| &without.left_out)
    }

    /// Tells the report.
    pub(super) fn tell(&self, ui: &Ui) {
        if ui.is_json() {
            Ui::verbatim(&self.to_json().to_string());
            return;
        }
        let row = |line: &Line| {
            let (mark, outcome) = match &line.outcome {
                Ok(outcome) => ("ok", outcome.clone()),
                Err(fault) => ("FAILED", fault.clone()),
            };
            vec![
                line.name.to_owned(),
                line.expected.to_owned(),
                line.server.to_owned(),
                outcome,
                mark.to_owned(),
            ]
        };
        ui.line(&format!("What the agent held:  GITHUB_TOKEN={}", self.placeholder));
        ui.line("What Keyless held:    the real token, sealed in the store, opened only on the way to its hosts\n");
        let blank = |name: &&str| {
            let words = ["", "", "not shown: it takes a jail", "—"].map(str::to_owned);
            [vec![(*name).to_owned()], words.to_vec()].concat()
        };
        let rows: Vec<Vec<String>> =
            self.lines.iter().map(row).chain(self.left_out().iter().map(blank)).collect();
        ui.line(&table(
            &["THE AGENT …", "SHOULD BE", "THE SERVER RECEIVED", "WHAT CAME BACK", ""],
            &rows,
        ));
        for leak in &self.leaks {
            ui.line(&format!("LEAK: the real token is in {leak}"));
        }
        let held = self.lines.iter().filter(|line| line.outcome.is_ok()).count();
        ui.line(&format!(
            "{held} of {} as they should be; {} bytes on the agent's side and the attacker's searched in every encoding: {} leaks.",
            self.lines.len() + self.left_out().len(),
            self.searched,
            self.leaks.len()
        ));
        if let Some(without) = &self.without_jail {
            ui.line(&format!(
                "No jail here, so the agent was led through Keyless by proxy variables alone. {}",
                without.why.message()
            ));
        } else if self.is_ok() {
            ui.line("Next: keyless init, then keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN");
        }
    }

    fn to_json(&self) -> Value {
        let step = |line: &Line| {
            let outcome = match &line.outcome {
                Ok(outcome) => outcome.clone(),
                Err(fault) => format!("FAILED: {fault}"),
            };
            json!({ "name": line.name, "expected": line.expected, "outcome": outcome, "server": line.server, "ok": line.outcome.is_ok() })
        };
        json!({
            "ok": self.is_ok() && self.without_jail.is_none(),
            "leaks": self.leaks.len(),
            "steps": self.lines.iter().map(step).collect::<Vec<_>>(),
            "not_shown": self.left_out(),
            "without_jail": self.without_jail.as_ref().map(|without| without.why.message()),
        })
    }

    fn line(&self, scene: &Scene, step: &Step, status: i32, printed: &[u8]) -> Line {
        let received = step.server.map(|server| server.origin(scene).everything_received());
        let has = |needle: &[u8]| {
            received.as_ref().is_some_and(|bytes| bytes.windows(needle.len()).any(|w| w == needle))
        };
        let got_value = received.as_ref().is_some_and(|bytes| scene.value.find(bytes).is_some());
        let got_placeholder = has(self.placeholder.as_bytes());
        let outcome = (step.judge)(&Evidence {
            status,
            printed: &String::from_utf8_lossy(printed),
            placeholder: &self.placeholder,
            server_got_value: got_value,
            server_got_placeholder: got_placeholder,
        });
        let server = match (got_value, got_placeholder) {
            (true, _) => "the real token",
            (false, true) => "the placeholder",
            (false, false) => "nothing",
        };
        Line { name: step.name, expected: step.expected, server, outcome }
    }

    /// Looks through every byte that the agent's side or the attacker saw.
    fn search(&mut self, scene: &Scene, seen: &Seen) {
        let evil = scene.evil.everything_received();
        let mut places = vec![
            ("the agent's terminal".to_owned(), seen.terminal.clone()),
            (format!("what {EVIL} received"), evil),
        ];
        for (line, (_, printed)) in self.lines.iter().zip(&seen.steps) {
            places.push((format!("what the agent saw when it {}", line.name), printed.clone()));
        }
        for (place, bytes) in places {
            self.searched += bytes.len();
            if let Some(sighting) = scene.value.find(&bytes) {
                self.leaks.push(format!("{place}: {sighting}"));
            }
        }
        match scene.value.find_under(&seen.work) {
            Ok(None) => {}
            Ok(Some((file, sighting))) => self.leaks.push(format!("the file {file}: {sighting}")),
            Err(error) => self.leaks.push(format!("a file that could not be searched: {error}")),
        }
    }
}

impl Server {
    fn origin(self, scene: &Scene) -> &Origin {
        match self {
            Self::Api => &scene.api,
            Self::Evil => &scene.evil,
            Self::Git => &scene.git,
        }
    }
}

/// The placeholder, as the agent's last words tell it.
fn placeholder_in(terminal: &[u8]) -> String {
    let text = String::from_utf8_lossy(terminal);
    let word = text.split_whitespace().find(|word| word.starts_with("kloak_"));
    word.unwrap_or("(none)").to_owned()
}
