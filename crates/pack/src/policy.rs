//! `agentpack.org.yaml`: what an organisation asks of a config repo. Only the `policy` commands read it.
//!
//! `lint` looks and reports, `lock` pins the policy pack, `audit` tells what the lockfiles hold and what changed in
//! them. Source: shared/reference/agentpack.md, section 15.

mod assets;
mod audit;
mod invocations;
mod lint;
mod pack;
mod supply;

use std::{io, path::Path};

use serde_json::{Map, Value, json};

pub(crate) use self::{audit::audit, lint::lint, pack::lock};
pub use self::{
    audit::{
        AuditChange, AuditChanges, AuditData, AuditLockfile, AuditModule, AuditPack, BeforeAfter,
    },
    lint::{LintData, LintIssue, LintSummary},
    pack::PolicyLockData,
};
use crate::{
    error::{Code, PackError, Result},
    manifest::{Source, source_from_spec},
    paths::shown,
    plain_file,
    yaml::{self, Node},
};

/// The policy's name in the config repo.
pub(crate) const FILE: &str = "agentpack.org.yaml";

/// A policy.
#[derive(Debug, Default)]
struct Policy {
    pack: Option<Source>,
    distribution: Option<Distribution>,
    supply: Option<Supply>,
}

/// What every repo of the organisation must deploy.
#[derive(Debug, Default)]
struct Distribution {
    targets: Vec<String>,
    modules: Vec<String>,
}

/// Where modules may come from.
#[derive(Debug, Default)]
struct Supply {
    remotes: Vec<String>,
    require_lockfile: bool,
}

/// Something in the policy that can't be used.
struct Fault {
    message: String,
    details: Map<String, Value>,
    code: Code,
}

impl Policy {
    /// Reads the policy; `None` when there is none. With faults it holds what could be read.
    fn load(repo: &Path) -> Result<Option<(Self, Vec<Fault>)>> {
        let path = repo.join(FILE);
        let text = match plain_file::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let fault = Fault::new("it is not UTF-8", &[("error", json!("not UTF-8"))]);
                return Ok(Some((Self::default(), vec![fault])));
            }
            Err(error) => return Err(PackError::io("read", &path, &error)),
        };
        Ok(Some(Self::parse(&text)))
    }

    fn parse(text: &str) -> (Self, Vec<Fault>) {
        let root = match yaml::parse(text) {
            Ok(root) => root,
            Err(fault) => {
                let message = format!("line {}: {}", fault.line, fault.message);
                return (Self::default(), vec![Fault::new(&message, &[("error", json!(message))])]);
            }
        };
        let version = root.get("version").and_then(Node::text).unwrap_or_default();
        if version != "1" {
            let number = version.parse::<u64>().map_or_else(|_| json!(version), |n| json!(n));
            let details = [("version", number), ("supported", json!([1]))];
            let mut fault = Fault::new(&format!("version `{version}` is not known"), &details);
            fault.code = Code::PolicyConfigUnsupportedVersion;
            return (Self::default(), vec![fault]);
        }
        let mut faults = Vec::new();
        let pack = root.get("policy_pack").filter(|node| !node.is_null());
        let distribution = root.get("distribution_policy").filter(|node| !node.is_null());
        let supply = root.get("supply_chain_policy").filter(|node| !node.is_null());
        let policy = Self {
            pack: pack.and_then(|node| pack_source(node, &mut faults)),
            distribution: distribution.map(|node| Distribution {
                targets: words(node, "distribution_policy.required_targets", &mut faults),
                modules: words(node, "distribution_policy.required_modules", &mut faults),
            }),
            supply: supply.map(|node| Supply {
                remotes: words(node, "supply_chain_policy.allowed_git_remotes", &mut faults),
                require_lockfile: flag(node, "supply_chain_policy.require_lockfile", &mut faults),
            }),
        };
        (policy, faults)
    }
}

impl Fault {
    fn new(message: &str, details: &[(&str, Value)]) -> Self {
        let details = details.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let details = details.collect();
        Self { message: message.to_owned(), details, code: Code::PolicyConfigInvalid }
    }

    /// As the error of a command that needs the policy.
    fn error(&self, path: &Path) -> PackError {
        let message = format!("{}: {}", path.display(), self.message);
        let error = PackError::new(self.code, message).with("path", shown(path));
        let hint = "correct agentpack.org.yaml, then run the command again";
        let details = self.details.iter();
        details.fold(error, |error, (name, value)| error.with(name, value.clone())).hint(hint)
    }
}

fn pack_source(node: &Node, faults: &mut Vec<Fault>) -> Option<Source> {
    let field = ("field", json!("policy_pack.source"));
    let Some(spec) = node.get("source").and_then(Node::text) else {
        faults.push(Fault::new("policy_pack.source is missing", &[field]));
        return None;
    };
    let source = source_from_spec(spec);
    source
        .map_err(|error| {
            let details = [field, ("value", json!(spec)), ("error", json!(error.message()))];
            let message = format!("policy_pack.source can't be used: {}", error.message());
            faults.push(Fault::new(&message, &details));
        })
        .ok()
}

/// A list of words; `field` is its whole name, of which the last part is the key.
fn words(node: &Node, field: &str, faults: &mut Vec<Fault>) -> Vec<String> {
    let key = field.rsplit('.').next().unwrap_or(field);
    let Some(list) = node.get(key).filter(|list| !list.is_null()) else { return Vec::new() };
    let texts = list.list().map(|items| items.iter().map(Node::text).collect::<Vec<_>>());
    let Some(texts) = texts else {
        let details = [("field", json!(field)), ("expected", json!("list of strings"))];
        faults.push(Fault::new(&format!("{field} is no list"), &details));
        return Vec::new();
    };
    let texts: Vec<Option<&str>> =
        texts.into_iter().map(|text| text.map(str::trim).filter(|text| !text.is_empty())).collect();
    if texts.contains(&None) {
        let message = format!("{field} contains an empty entry");
        faults.push(Fault::new(&message, &[("field", json!(field))]));
    }
    texts.into_iter().flatten().map(str::to_owned).collect()
}

fn flag(node: &Node, field: &str, faults: &mut Vec<Fault>) -> bool {
    let key = field.rsplit('.').next().unwrap_or(field);
    let Some(value) = node.get(key).filter(|value| !value.is_null()) else { return false };
    value.bool().unwrap_or_else(|| {
        let details = [("field", json!(field)), ("expected", json!("true or false"))];
        faults.push(Fault::new(&format!("{field} is neither true nor false"), &details));
        // What can't be read asks for the most.
        true
    })
}
