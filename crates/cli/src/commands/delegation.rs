//! `keyless delegation`: what agents have handed on.

use std::process::ExitCode;

use keyless_core::{Error, delegation::Token};
use keyless_daemon::{
    audit_log,
    nl::delegations::{Delegations, Revoker},
};
use serde_json::{Value, json};

use super::unlock_vault;
use crate::{
    args::DelegationCommand,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: DelegationCommand) -> Result<ExitCode, Error> {
    match command {
        DelegationCommand::List(args) => {
            let (_, vault) = unlock_vault(&args.factor).await?;
            list(ui, &Delegations::new(&vault, audit_log(&vault))).await?;
        }
        DelegationCommand::Revoke(args) => {
            let (_, vault) = unlock_vault(&args.factor).await?;
            let delegations = Delegations::new(&vault, audit_log(&vault));
            let below = delegations.revoke(&args.id, Revoker::Operator, &args.reason).await?;
            let words = format!("Revoked {}, and {below} that came of it.\n", args.id);
            let data = json!({ "token_id": args.id, "status": "revoked", "cascade_count": below });
            ui.answer("delegation revoke", &data, &words);
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(ui: &Ui, delegations: &Delegations) -> Result<(), Error> {
    let all = delegations.list().await?;
    let now = jiff::Timestamp::now();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|(token, used)| {
            vec![
                token.token_id.to_string(),
                token.state(*used, now).as_str().to_owned(),
                token.issuer.to_string(),
                token.subject.to_string(),
                format!("{used}/{}", token.scope.max_uses),
            ]
        })
        .collect();
    let shown = |(token, used): &(Token, u64)| {
        let state = token.state(*used, now);
        json!({ "token": token, "state": state, "used": used })
    };
    let data: Vec<Value> = all.iter().map(shown).collect();
    let words = if rows.is_empty() {
        "No agent has handed anything on.\n".to_owned()
    } else {
        table(&["TOKEN", "STATE", "FROM", "TO", "USES"], &rows)
    };
    let data = json!({ "delegations": data, "signing_key": delegations.signing_key() });
    ui.answer("delegation list", &data, &words);
    Ok(())
}
