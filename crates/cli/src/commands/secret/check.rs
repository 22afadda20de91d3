//! `keyless secret check`: asks services whether they take the values that they once gave.

use std::process::ExitCode;

use futures_util::{StreamExt as _, stream};
use keyless_core::{Error, Exit};
use keyless_daemon::{Checked, LivenessVerdict, Operator};
use serde_json::{Value, json};

use super::super::unlock_vault;
use crate::{
    args::SecretCheckArgs,
    ui::{Ui, table},
};

/// Services that are asked at the same time.
const AT_ONCE: usize = 8;

pub(super) async fn run(ui: &Ui, args: SecretCheckArgs) -> Result<ExitCode, Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let all = vault.list().await?;
    let all: Vec<_> = all.iter().map(|secret| secret.path.clone()).collect();
    for path in &args.paths {
        vault.show(path).await?;
    }
    let named = !args.paths.is_empty();
    let operator = Operator::new(vault);
    let (mut rows, mut data, mut rejected) = (Vec::new(), Vec::new(), 0);
    let asked = if named { &args.paths } else { &all };
    let check = async |path| match operator.check(&places, path, args.user.as_deref()).await {
        Ok(checked) => (path, checked),
        // One that can't be had says nothing of the others.
        Err(error) => (path, Checked::failed(&error)),
    };
    let answers = stream::iter(asked).map(check).buffered(AT_ONCE).collect::<Vec<_>>();
    for (path, checked) in ui.wait("Asking their services", Box::pin(answers)).await {
        if !named && checked.verdict == LivenessVerdict::Unsupported {
            continue;
        }
        rejected += usize::from(checked.verdict == LivenessVerdict::Rejected);
        rows.push(vec![
            path.to_string(),
            checked.host.clone().unwrap_or_default(),
            checked.verdict.as_str().to_owned(),
            checked.why.clone().unwrap_or_default(),
        ]);
        let mut entry = json!(checked);
        entry["path"] = Value::from(path.as_str());
        data.push(entry);
    }
    let words = if rows.is_empty() {
        "The catalog knows of no check for any of these secrets.\n".to_owned()
    } else {
        table(&["PATH", "ASKED", "ANSWER", "WHY"], &rows)
    };
    let outcome = if rejected == 0 { Ok(()) } else { Err(Exit::Failure) };
    let data = json!({ "secrets": data, "rejected": rejected });
    Ok(ui.conclude("secret check", outcome, &data, &words))
}
