//! `keyless secret revoke`: a value that others may know is given out no more.

use keyless_core::Error;
use keyless_daemon::{Operator, UsedBy};
use serde_json::json;

use super::unlock_with;
use crate::{
    args::RevokeArgs,
    prompt,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, args: RevokeArgs) -> Result<(), Error> {
    let (_, vault) = unlock_with(&args.path, &args.factor).await?;
    let operator = Operator::new(vault);
    if args.renewed {
        operator.renewed(&args.path).await?;
        let words = format!("{} is given out again.\n", args.path);
        ui.answer("secret revoke", &json!({ "path": args.path, "revoked": false }), &words);
        return Ok(());
    }
    let question = format!("Refuse every use of {} until it has a new value?", args.path);
    if !args.yes && !prompt::confirm(&question)? {
        ui.line("Nothing was revoked.");
        return Ok(());
    }
    operator.revoke_compromised(&args.path, &args.reason).await?;
    let users = operator.used_by(&args.path).await?;
    let words = format!(
        "{} is refused everywhere; what is open and uses it ends within a second.\n{}\
         Next: revoke it where it was issued, then keyless secret rotate {}\n",
        args.path,
        told(&users),
        args.path
    );
    let data = json!({ "path": args.path, "revoked": true, "used_by": users });
    ui.answer("secret revoke", &data, &words);
    Ok(())
}

fn told(users: &[UsedBy]) -> String {
    if users.is_empty() {
        return "By the log, nobody has used this value.\n".to_owned();
    }
    let row = |one: &UsedBy| {
        let (agent, session) = (one.agent_uri.clone(), one.session_id.clone());
        vec![agent, session, one.first.clone(), one.last.clone(), one.entries.to_string()]
    };
    let rows: Vec<Vec<String>> = users.iter().map(row).collect();
    table(&["USED BY", "SESSION", "FIRST", "LAST", "ENTRIES"], &rows)
}
