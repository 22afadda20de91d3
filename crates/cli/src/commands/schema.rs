//! `keyless schema`: what the NL Protocol's objects look like, for programs.

use std::process::ExitCode;

use keyless_core::{
    Code, Error,
    nl_message::{SCHEMAS, schema, schema_title},
};
use serde_json::{Value, json};

use crate::{
    args::SchemaArgs,
    ui::{Ui, table},
};

pub(super) fn run(ui: &Ui, args: &SchemaArgs) -> Result<ExitCode, Error> {
    let Some(name) = &args.name else {
        list(ui);
        return Ok(ExitCode::SUCCESS);
    };
    let schema = schema(name).ok_or(Code::Usage)?;
    let text = serde_json::to_string_pretty(&schema).map_err(|_| Code::Internal)?;
    ui.answer("schema", &schema, &format!("{text}\n"));
    Ok(ExitCode::SUCCESS)
}

fn list(ui: &Ui) {
    let named = SCHEMAS.map(|name| (name, schema_title(name).unwrap_or_default()));
    let rows = named.clone().map(|(name, title)| vec![name.to_owned(), title]);
    let data: Vec<Value> =
        named.iter().map(|(name, title)| json!({ "name": name, "title": title })).collect();
    ui.answer("schema", &json!({ "schemas": data }), &table(&["NAME", "OBJECT"], &rows));
}
