//! Arguments as agents write them, turned into calls.
//!
//! Advertised strictly, taken leniently where the spec wants an envelope for an answer: a missing yes or token is no
//! fault of form, `null` is absent, and a target that the schema does not list may still be one. Beside the schema
//! every tool takes `cwd`.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{Ask, Call, Drift, Explained, Place, Refusal, Scope, Tool};

/// Reads the arguments of a tool. Whether somebody said yes comes before everything else.
pub(super) fn read(tool: Tool, given: Map<String, Value>) -> Result<Call, Refusal> {
    let yes = given.get("yes") == Some(&Value::Bool(true));
    let dry_run = given.get("dry_run") == Some(&Value::Bool(true));
    let writes = match tool {
        Tool::DeployApply | Tool::Rollback => true,
        Tool::EvolvePropose | Tool::EvolveRestore => !dry_run,
        _ => false,
    };
    if writes && !yes {
        return Err(Refusal::Unconfirmed);
    }
    let mut arguments = Arguments(given);
    let call = call(tool, &mut arguments).map_err(Refusal::Arguments)?;
    match arguments.0.keys().next() {
        Some(unknown) => {
            Err(Refusal::Arguments(format!("`{unknown}` is no argument of this tool")))
        }
        None => Ok(call),
    }
}

type Read<T> = Result<T, String>;

fn call(tool: Tool, given: &mut Arguments) -> Read<Call> {
    let mut place = Place { cwd: cwd(given)?, repo: given.path("repo")?, ..Place::default() };
    if tool != Tool::Rollback {
        place.target = given.text("target")?;
    }
    if !matches!(tool, Tool::Doctor | Tool::Rollback) {
        place.profile = given.text("profile")?;
        place.machine = given.text("machine")?;
    }
    Ok(Call { place, ask: ask(tool, given)? })
}

fn ask(tool: Tool, given: &mut Arguments) -> Read<Ask> {
    Ok(match tool {
        Tool::Deploy => given.with_dry_run(Ask::Deploy)?,
        Tool::DeployApply => Ask::DeployApply {
            adopt: given.flag("adopt")?,
            dry_run: given.flag("dry_run")?,
            confirm_token: given.confirmed().text("confirm_token")?,
        },
        Tool::Diff => given.with_dry_run(Ask::Diff)?,
        Tool::Doctor => Ask::Doctor,
        Tool::EvolvePropose => Ask::EvolvePropose {
            module_id: given.text("module_id")?,
            scope: scope(given.text("scope")?.as_deref())?,
            branch: given.text("branch")?,
            dry_run: given.confirmed().flag("dry_run")?,
        },
        Tool::EvolveRestore => Ask::EvolveRestore {
            module_id: given.text("module_id")?,
            dry_run: given.confirmed().flag("dry_run")?,
        },
        Tool::Explain => Ask::Explain(explained(given.text("kind")?.as_deref())?),
        Tool::Plan => given.with_dry_run(Ask::Plan)?,
        Tool::Preview => {
            let diff = given.flag("diff")?;
            given.with_dry_run(Ask::Preview { diff })?
        }
        Tool::Rollback => {
            let to = given.confirmed().text("to")?;
            Ask::Rollback { to: to.ok_or("`to` is missing: the id of a snapshot")? }
        }
        Tool::Status => {
            let only = given.list("only")?.iter().map(drift).collect::<Read<_>>()?;
            given.with_dry_run(Ask::Status(only))?
        }
    })
}

fn cwd(given: &mut Arguments) -> Read<Option<PathBuf>> {
    match given.path("cwd")? {
        Some(cwd) if !cwd.is_absolute() => Err("`cwd` is an absolute path".to_owned()),
        cwd => Ok(cwd),
    }
}

fn scope(word: Option<&str>) -> Read<Scope> {
    match word {
        None | Some("global") => Ok(Scope::Global),
        Some("machine") => Ok(Scope::Machine),
        Some("project") => Ok(Scope::Project),
        Some(_) => Err("`scope` is global, machine or project".to_owned()),
    }
}

fn explained(word: Option<&str>) -> Read<Explained> {
    match word {
        Some("diff") => Ok(Explained::Diff),
        Some("plan") => Ok(Explained::Plan),
        Some("status") => Ok(Explained::Status),
        _ => Err("`kind` is plan, diff or status".to_owned()),
    }
}

fn drift(word: &Value) -> Read<Drift> {
    match word.as_str() {
        Some("extra") => Ok(Drift::Extra),
        Some("missing") => Ok(Drift::Missing),
        Some("modified") => Ok(Drift::Modified),
        _ => Err("`only` lists missing, modified and extra".to_owned()),
    }
}

/// The arguments that nobody has read yet.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Read<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` is a string")),
        }
    }

    fn path(&mut self, name: &str) -> Read<Option<PathBuf>> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()).map(PathBuf::from))
    }

    fn flag(&mut self, name: &str) -> Read<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(set)) => Ok(set),
            Some(_) => Err(format!("`{name}` is true or false")),
        }
    }

    fn list(&mut self, name: &str) -> Read<Vec<Value>> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(format!("`{name}` is a list")),
        }
    }

    /// Reads `dry_run` where it changes nothing.
    fn with_dry_run(&mut self, ask: Ask) -> Read<Ask> {
        self.flag("dry_run").map(|_| ask)
    }

    /// The yes has been looked at already.
    fn confirmed(&mut self) -> &mut Self {
        self.0.remove("yes");
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(tool: Tool, arguments: Value) -> Result<Call, Refusal> {
        let Value::Object(arguments) = arguments else { unreachable!("an object") };
        read(tool, arguments)
    }

    #[test]
    fn a_yes_comes_before_everything_else() {
        let no = Err(Refusal::Unconfirmed);
        for arguments in [
            json!({}),
            json!({ "yes": false, "confirm_token": "t" }),
            json!({ "yes": "true" }),
            json!({ "yes": 1, "nonsense": [] }),
            json!({ "yes": null }),
        ] {
            for tool in
                [Tool::DeployApply, Tool::Rollback, Tool::EvolvePropose, Tool::EvolveRestore]
            {
                assert_eq!(given(tool, arguments.clone()), no, "{tool:?} {arguments}");
            }
        }
        assert_eq!(given(Tool::DeployApply, json!({ "dry_run": true })), no);
        assert!(given(Tool::EvolveRestore, json!({ "dry_run": true })).is_ok());
    }

    #[test]
    fn what_is_left_out_or_null_has_its_default() {
        let bare = given(Tool::DeployApply, json!({ "yes": true })).unwrap();
        let nulls =
            json!({ "yes": true, "repo": null, "adopt": null, "confirm_token": null, "cwd": null });
        assert_eq!(given(Tool::DeployApply, nulls).unwrap(), bare);
        assert_eq!(bare.place, Place::default());
        let ask = Ask::DeployApply { adopt: false, dry_run: false, confirm_token: None };
        assert_eq!(bare.ask, ask);
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        for (tool, arguments, word) in [
            (Tool::Plan, json!({ "nonsense": 1 }), "`nonsense`"),
            (Tool::Plan, json!({ "profile": 7 }), "`profile`"),
            (Tool::Plan, json!({ "cwd": "here" }), "`cwd`"),
            (Tool::Preview, json!({ "diff": "yes" }), "`diff`"),
            (Tool::Status, json!({ "only": ["gone"] }), "`only`"),
            (Tool::Explain, json!({}), "`kind`"),
            (Tool::Rollback, json!({ "yes": true }), "`to`"),
            (Tool::Doctor, json!({ "profile": "x" }), "`profile`"),
        ] {
            match given(tool, arguments) {
                Err(Refusal::Arguments(words)) => assert!(words.contains(word), "{words}"),
                other => panic!("{word}: {other:?}"),
            }
        }
    }
}
