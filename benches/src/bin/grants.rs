//! Grant evaluation: one action over 10,000 grants, against a walk over all of them.
//!
//! Three spreads: the grants of many agents, of one agent over many categories, and of one agent with patterns that no index
//! can tell apart. Budget: <= 20 us (design.md, section 7).

use std::{collections::BTreeMap, hint::black_box, time::Instant};

use jiff::Timestamp;
use keyless_benches::{Result, Table, decimals, median};
use keyless_core::{
    ActionType, SecretPath,
    agent::{AgentUri, InstanceId, TrustLevel},
    grant::{
        Categories, Counts, Grant, GrantIndex, PermissionRef, Request, Subject, Verdict, evaluate,
        explain,
    },
};
use serde_json::json;

const GRANTS: usize = 10_000;
const CALLS: u32 = 2_000;
const ROUNDS: usize = 7;

/// A name, and the agent and pattern of each grant.
type Spread = (&'static str, fn(usize) -> (String, String));

struct Nothing;

impl Counts for Nothing {
    fn uses(&self, _: &PermissionRef) -> u64 {
        0
    }
    fn running(&self, _: &PermissionRef) -> u32 {
        0
    }
    fn recent(&self, _: &PermissionRef) -> u32 {
        0
    }
}

fn main() -> Result<()> {
    let mut table = Table::new(&["10,000 grants", "indexed us", "walk us", "of the walk"]);
    let spreads: [Spread; 3] = [
        ("of 1,000 agents", |n| (format!("bot{}", n % 1000), format!("category{n}/*"))),
        ("of one agent, by category", |n| ("bot7".to_owned(), format!("category{n}/*"))),
        ("of one agent, by name", |n| ("bot7".to_owned(), format!("category{}/key{n}", n % 100))),
    ];
    for (name, of) in spreads {
        let index = GrantIndex::new((0..GRANTS).map(|n| grant(n, of(n))));
        let path = SecretPath::parse(if name.ends_with("name") {
            "team/category7/key9907"
        } else {
            "team/category9007/key"
        })?;
        let (indexed, walked) = measure(&index, &path)?;
        table.row([
            name.to_owned(),
            decimals(indexed, 2),
            decimals(walked, 1),
            decimals(indexed / walked, 4),
        ]);
    }
    println!("{table}\nBudget: <= 20 us.");
    Ok(())
}

fn grant(number: usize, (agent, pattern): (String, String)) -> Grant {
    let grant = json!({
        "grant_id": format!("grant_{number}"), "agent_uri": format!("nl://acme.corp/{agent}/1.0.0"),
        "organization_id": "acme",
        "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-01-01T00:00:00Z" },
        "permissions": [{ "action_types": ["exec"], "secrets": [pattern], "conditions": {
            "valid_from": "2026-01-01T00:00:00Z", "valid_until": "2099-01-01T00:00:00Z",
            "max_uses": 100, "allowed_environments": ["default"] } }],
    });
    serde_json::from_value(grant).expect("a grant")
}

/// Microseconds of one evaluation, and of the walk that `explain` makes over all grants.
fn measure(index: &GrantIndex, path: &SecretPath) -> Result<(f64, f64)> {
    let now: Timestamp = "2026-11-21T00:00:00Z".parse()?;
    let agent = AgentUri::parse("nl://acme.corp/bot7/1.0.0")?;
    let instance = InstanceId::parse("550e8400-e29b-41d4-a716-446655440000").ok_or("no UUID")?;
    let (categories, contexts) = (Categories::of(std::iter::once(path)), BTreeMap::new());
    let subjects = [Subject::from(path.clone())];
    let request = Request {
        agent_uri: &agent,
        instance_id: &instance,
        organization_id: "acme",
        trust: TrustLevel::L1,
        action: ActionType::Exec,
        subjects: &subjects,
        categories: &categories,
        contexts: &contexts,
        source_ip: None,
        approved: false,
        writes: false,
    };
    let verdict = evaluate(&request, index, &Nothing, now);
    if !matches!(verdict, Verdict::Allow(_)) {
        return Err("the action is not allowed".into());
    }
    let (mut indexed, mut walked) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS {
            black_box(evaluate(black_box(&request), index, &Nothing, now));
        }
        indexed.push(began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
        let began = Instant::now();
        black_box(explain(black_box(&request), index, &Nothing, now));
        walked.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok((median(&indexed), median(&walked)))
}
