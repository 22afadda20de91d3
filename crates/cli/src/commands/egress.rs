//! `keyless egress explain`: what would happen to a request, and why.

use std::{fmt::Write as _, process::ExitCode};

use keyless_core::{Error, Exit};
use keyless_daemon::{Explanation, Places, Question, Subject};

use super::{config, open_store};
use crate::{
    args::{EgressCommand, ExplainArgs},
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: EgressCommand) -> Result<ExitCode, Error> {
    match command {
        EgressCommand::Explain(args) => explain(ui, &args).await,
    }
}

async fn explain(ui: &Ui, args: &ExplainArgs) -> Result<ExitCode, Error> {
    let config = config(&Places::from_environment()?, &args.routes)?;
    let asked = Question::parse(&args.url, &args.method)?;
    let explanation = if let Some(catalog) = &args.catalog {
        keyless_daemon::explain(&config, Subject::Catalog(catalog), &asked).await?
    } else {
        let (_, store) = open_store().await?;
        let subject = match &args.session {
            Some(id) => Subject::Session(&store, id),
            None => Subject::Store(&store),
        };
        keyless_daemon::explain(&config, subject, &asked).await?
    };
    let outcome = if explanation.code.is_none() { Ok(()) } else { Err(Exit::Refused) };
    Ok(ui.conclude("egress explain", outcome, &explanation, &words_of(&explanation)))
}

fn words_of(explanation: &Explanation) -> String {
    let mut words = match explanation.code {
        None => "It would leave.\n\n".to_owned(),
        Some(code) => format!("It would be refused: {code}.\n\n"),
    };
    let steps = explanation.steps.iter().map(|step| {
        let answer = if step.passes { "passes" } else { "refuses" };
        vec![step.rule.to_owned(), answer.to_owned(), step.why.clone()]
    });
    words.push_str(&table(&["RULE", "ANSWER", "WHY"], &steps.collect::<Vec<_>>()));
    if !explanation.secrets.is_empty() {
        words.push_str("\nA placeholder in the request:\n");
    }
    for secret in &explanation.secrets {
        let fates = secret.locations.iter().map(|(location, fate)| format!("{location}: {fate}"));
        let fates = fates.collect::<Vec<_>>().join(", ");
        let fates = secret.of_its_own.map_or(fates, |what| format!("the proxy {what}"));
        writeln!(words, "  {}  {fates}", secret.path).expect("a String takes anything");
    }
    words
}
