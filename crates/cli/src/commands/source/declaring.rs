//! `keyless source add` and `remove`: lines of sources.toml.

use std::process::ExitCode;

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{NewSource, Places, declare_source, undeclare_source};
use serde_json::json;

use crate::{
    args::{AccessWord, SourceAddArgs, SourceRemoveArgs},
    commands::{approve::visible, open_store},
    ui::Ui,
};

/// What takes it up.
const NEXT: &str =
    "A broker that runs takes it up when it is started anew: keyless lock, keyless unlock.";

pub(super) fn add(ui: &Ui, args: SourceAddArgs) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let setting = |text: String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => {
            let words = SafeText::words("a setting is NAME=VALUE; ").as_they_wrote(&text);
            Err(Error::with(Code::Usage, words.and(" is none")))
        }
    };
    let settings = args.settings.into_iter().map(setting).collect::<Result<_, Error>>()?;
    let new = NewSource {
        name: args.name,
        kind: args.kind,
        may_write: args.access == AccessWord::Readwrite,
        settings,
        routes: args.route,
        is_default: args.default,
        credential: args.credential,
    };
    declare_source(&places, &new)?;
    if let Some(why) = keyless_daemon::lacking_of_source(&places, &new.name)? {
        ui.warn(format!(
            "{} can't be asked yet: {}. Next: put it there, or name another place in {}",
            new.name,
            visible(why.as_str()),
            places.sources_file().display()
        ));
    }
    let file = places.sources_file();
    let words = format!("{} stands in {}. {NEXT}\n", new.name, file.display());
    ui.answer("source add", &json!({ "source": new.name, "file": file.to_string_lossy() }), &words);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn remove(ui: &Ui, args: &SourceRemoveArgs) -> Result<ExitCode, Error> {
    let (places, store) = open_store().await?;
    let secrets = keyless_daemon::list_secrets(&store).await?;
    undeclare_source(&places, &args.name, &secrets)?;
    let file = places.sources_file();
    let words = format!("{} is gone from {}. {NEXT}\n", args.name, file.display());
    ui.answer(
        "source remove",
        &json!({ "source": args.name, "file": file.to_string_lossy() }),
        &words,
    );
    Ok(ExitCode::SUCCESS)
}
