//! Grants: the specification's objects, patterns, conditions, and what must hold of every evaluation.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Authority, Code, Scheme, SecretPath, agent::TrustLevel};

const URI: &str = "nl://anthropic.com/claude-code/1.5.2";
const INSTANCE: &str = "550e8400-e29b-41d4-a716-446655440000";

/// Section 8.2 of the specification, word for word.
fn of_section_8_2() -> Value {
    json!({
        "$schema": "https://nlprotocol.org/schemas/v1.0/scope-grant.json",
        "grant_id": "grant_550e8400-e29b-41d4-a716-446655440000", "nl_version": "1.0",
        "agent_uri": URI, "instance_id": INSTANCE, "organization_id": "org_acme_corp_2024",
        "granted_by": { "type": "human", "identifier": "andres@acme.corp", "granted_at": "2026-02-08T10:00:00Z" },
        "permissions": [
            {
                "action_types": ["exec", "inject_stdin"], "secrets": ["api/*", "database/DB_PASSWORD"],
                "conditions": {
                    "valid_from": "2026-02-08T10:00:00Z", "valid_until": "2026-02-08T18:00:00Z", "max_uses": 100,
                    "require_human_approval": false, "min_trust_level": "L1",
                    "allowed_environments": ["development", "staging"],
                    "allowed_contexts": { "repository": "github.com/acme-corp/backend" },
                },
            },
            {
                "action_types": ["exec"], "secrets": ["production/*"],
                "conditions": {
                    "valid_from": "2026-02-08T10:00:00Z", "valid_until": "2026-02-08T18:00:00Z", "max_uses": 5,
                    "require_human_approval": true, "min_trust_level": "L2", "allowed_environments": ["production"],
                },
            },
        ],
        "revocable": true, "revoked": false,
    })
}

/// Section 8.6, which has no `nl_version`.
fn of_section_8_6() -> Value {
    json!({
        "grant_id": "grant_daily_dev_2026-02-08", "agent_uri": URI, "organization_id": "org_acme_corp_2024",
        "granted_by": { "type": "human", "identifier": "andres@acme.corp", "granted_at": "2026-02-08T09:00:00Z" },
        "permissions": [{
            "action_types": ["exec", "template", "inject_stdin", "inject_tempfile"],
            "secrets": ["api/*", "database/DB_*"],
            "conditions": {
                "valid_from": "2026-02-08T09:00:00Z", "valid_until": "2026-02-08T18:00:00Z", "max_uses": 100,
                "require_human_approval": false, "min_trust_level": "L1",
                "allowed_environments": ["development", "staging"],
                "allowed_contexts": { "repository": "github.com/acme-corp/backend" },
            },
        }],
        "revocable": true, "revoked": false,
    })
}

#[derive(Default)]
struct Counted {
    uses: u64,
    running: u32,
    recent: u32,
}

impl Counts for Counted {
    fn uses(&self, _: &PermissionRef) -> u64 {
        self.uses
    }
    fn running(&self, _: &PermissionRef) -> u32 {
        self.running
    }
    fn recent(&self, _: &PermissionRef) -> u32 {
        self.recent
    }
}

/// A request and everything that it stands on; a test changes what it is about.
struct Scene {
    grants: Vec<Value>,
    paths: Vec<&'static str>,
    action: ActionType,
    trust: TrustLevel,
    repository: &'static str,
    source_ip: Option<&'static str>,
    approved: bool,
    writes: bool,
    now: &'static str,
    counted: Counted,
}

impl Scene {
    fn of(grant: Value, path: &'static str) -> Self {
        Self {
            grants: vec![grant],
            paths: vec![path],
            action: ActionType::Exec,
            trust: TrustLevel::L1,
            repository: "github.com/acme-corp/backend",
            source_ip: None,
            approved: false,
            writes: false,
            now: "2026-02-08T12:00:00Z",
            counted: Counted::default(),
        }
    }

    fn ask<T>(&self, ask: impl Fn(&Request<'_>, &GrantIndex, &dyn Counts, Timestamp) -> T) -> T {
        let grants = self.grants.iter().map(|grant| serde_json::from_value(grant.clone()).unwrap());
        let index = GrantIndex::new(grants.map(|grant: Grant| grant.under(Profile::Seed).0));
        let subject = |path: &&str| Subject::from(SecretPath::parse(path).unwrap());
        let subjects: Vec<_> = self.paths.iter().map(subject).collect();
        let contexts = BTreeMap::from([("repository".to_owned(), self.repository.to_owned())]);
        let request = Request {
            agent_uri: &AgentUri::parse(URI).unwrap(),
            instance_id: &InstanceId::parse(INSTANCE).unwrap(),
            organization_id: "org_acme_corp_2024",
            trust: self.trust,
            action: self.action,
            writes: self.writes,
            subjects: &subjects,
            categories: &Categories::default(),
            contexts: &contexts,
            source_ip: self.source_ip.map(|address| address.parse().unwrap()),
            approved: self.approved,
        };
        ask(&request, &index, &self.counted, self.now.parse().unwrap())
    }

    fn verdict(&self) -> Verdict {
        self.ask(evaluate)
    }

    fn denied(&self) -> DenyReason {
        match self.verdict() {
            Verdict::Deny(denial) => denial.reason,
            other => panic!("not denied: {other:?}"),
        }
    }

    fn is_allowed(&self) -> bool {
        matches!(self.verdict(), Verdict::Allow(_))
    }
}

#[test]
fn the_specifications_objects_come_back_as_they_went_in() {
    for (example, added) in [(of_section_8_2(), None), (of_section_8_6(), Some("nl_version"))] {
        let grant: Grant = serde_json::from_value(example.clone()).unwrap();
        assert_eq!(grant.faults(grant.granted_by.granted_at), Vec::<&str>::new());
        let mut back = serde_json::to_value(&grant).unwrap();
        if let Some(field) = added {
            back.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(back, example);
    }
    // A condition that is not known must not be passed over.
    let mut stranger = of_section_8_2();
    stranger["permissions"][0]["conditions"]["moon_phase"] = json!("full");
    assert!(serde_json::from_value::<Grant>(stranger).is_err());
    let mut negative = of_section_8_2();
    negative["permissions"][0]["conditions"]["max_uses"] = json!(-1);
    assert!(serde_json::from_value::<Grant>(negative).is_err());
}

/// By their place two dates are a permission without a limit, and without a person.
#[test]
fn a_list_is_no_object() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut grant = of_section_8_2();
        change(&mut grant);
        serde_json::from_value::<Grant>(grant).unwrap_err().to_string()
    };
    let dates = json!(["2026-02-08T10:00:00Z", "2026-02-08T18:00:00Z"]);
    let said = refused(&|grant| grant["permissions"][1]["conditions"] = dates.clone());
    assert!(said.contains("expected a map"), "{said}");
    refused(&|grant| grant["granted_by"] = json!(["human", "x", "2026-02-08T10:00:00Z"]));
    refused(&|grant| {
        let conditions = grant["permissions"][0]["conditions"].clone();
        grant["permissions"][0] = json!([["exec"], ["team/**"], conditions]);
    });
}

#[test]
fn a_scope_is_a_pattern_or_a_beginning() {
    let subject = Subject::from(SecretPath::parse("team/prod/api/token").unwrap());
    let none = Categories::default();
    let goes = |text: &str, is_folder| {
        SecretPattern::parse(text).unwrap().leads_to(&subject.forms(&none), is_folder)
    };
    let leads = |text: &str| goes(text, false);
    for text in
        ["api/*", "API/*", "api/TOKEN", "team/**", "team", "team/prod", "api", "api/to", "*"]
    {
        assert!(leads(text), "{text}");
    }
    for text in ["db/*", "tok", "token/x", "eam", "other"] {
        assert!(!leads(text), "{text}");
    }
    assert!(goes("team/prod", true) && goes("api", true) && !goes("team/pro", true));
}

#[test]
fn patterns_are_compared_with_the_form_of_their_length() {
    let has = Categories::of(&[SecretPath::parse("x/production/key").unwrap()]);
    let none = Categories::default();
    for (pattern, path, categories, fits) in [
        ("*", "team/prod/api/token", &none, true),
        ("**", "team/prod/api/token", &none, true),
        ("TOKEN", "team/prod/api/token", &none, true),
        ("api/*", "team/prod/api/token", &none, true),
        ("api/*", "team/api/token", &none, true),
        // Weakness 15: a category is no folder, and no project.
        ("api/*", "api/v2/deep", &none, false),
        ("api/*", "prod/api-other/key", &none, false),
        ("api/**", "api/v2/deep", &none, true),
        ("api/**", "team/prod/api/token", &none, false),
        ("database/DB_*", "team/database/db-password", &none, true),
        ("database/DB_*", "team/database/other", &none, false),
        ("production/*", "team/production/api/key", &none, true),
        ("production/*", "team/production/api/key", &has, false),
        ("team/prod/*", "team/prod/api/token", &none, true),
        ("team/prod/api/*", "team/prod/api/token", &none, true),
        ("team/prod/aws/*", "team/prod/aws/deploy/key", &none, true),
        ("deploy/*", "team/prod/aws/deploy/key", &none, false),
        ("team/default/github/token", "team/github/token", &none, true),
        ("api/toke?", "team/api/token", &none, true),
        ("api/token?", "team/api/token", &none, false),
        ("api/t*n", "team/api/token", &none, true),
    ] {
        let subject = Subject::from(SecretPath::parse(path).unwrap());
        let pattern = SecretPattern::parse(pattern).unwrap();
        assert_eq!(pattern.matches(&subject.forms(categories)), fits, "{pattern} {path}");
    }
    let at = vec!["aws-sm://prod/db".into(), "aws-sm://us-east-1/prod/db".into()];
    let elsewhere = Subject::new(SecretPath::parse("t/x/y").unwrap(), at);
    for (pattern, fits) in [
        ("aws-sm://us-east-1/**", true),
        ("aws-sm://us-east-1/*", false),
        ("aws-sm://*/db", true),
        ("aws-sm://**", true),
        ("aws-sm://*", false),
        ("*", true),
        ("x/y", true),
        ("aws**", false),
        ("prod/db", false),
    ] {
        let pattern = SecretPattern::parse(pattern).unwrap();
        assert_eq!(pattern.matches(&elsewhere.forms(&none)), fits, "{pattern}");
    }
    for text in ["", "api/", "/api", "a b", "{{nl:x}}", "api//x"] {
        assert!(SecretPattern::parse(text).is_err(), "{text:?}");
    }
    for (inner, outer, within) in [
        ("api/TOKEN", "api/*", true),
        ("api/*", "api/*", true),
        ("api/*", "*", true),
        ("*", "api/*", false),
        ("api/*", "api/T*", false),
        ("team/prod/api/x", "team/**", true),
        ("api/x", "team/**", false),
        ("team/prod/*", "team/**", true),
        ("team/prod/**", "team/**", true),
        ("team/**", "team/prod/**", false),
        ("team/**", "team/*/**", false),
        ("team/*/x", "team/?/x", false),
        ("api/a?", "api/a*", true),
        ("api/a*", "api/a?", false),
        ("api/a*", "api/??*", false),
        ("team/a**", "team/a*", false),
        ("team/***", "team/**", true),
        ("api/*", "team/**", false),
        ("aws-sm://prod/db", "aws-sm://prod/*", true),
        ("aws-sm://prod/**", "aws-sm://**", true),
        ("aws-sm://prod/db", "aws**", false),
        ("api/x", "aws-sm://**", false),
    ] {
        let parse = |text| SecretPattern::parse(text).unwrap();
        assert_eq!(parse(inner).is_within(&parse(outer)), within, "{inner} in {outer}");
    }
}

#[test]
fn a_place_without_a_secret_is_named_by_its_very_reference() {
    let at = vec!["vault://prod/db".into(), "corp://prod/db".into()];
    let path = SecretPath::parse("at-source/corp/prod-db").unwrap();
    let place = Subject::of_place(path, at);
    let none = Categories::default();
    for (pattern, fits) in [
        ("vault://prod/db", true),
        ("corp://prod/db", true),
        ("corp://prod/DB", false),
        ("vault://prod/*", false),
        ("vault://prod/d?", false),
        ("vault://**", false),
        ("*", false),
        ("**", false),
        ("prod-db", false),
        ("corp/prod-db", false),
        ("at-source/**", false),
        ("at-source/corp/prod-db", false),
    ] {
        let pattern = SecretPattern::parse(pattern).unwrap();
        assert_eq!(pattern.matches(&place.forms(&none)), fits, "{pattern}");
    }
    // Bounds by project, environment or category leave it out; bounds by its reference don't.
    let scope = |text: Value| serde_json::from_value::<crate::agent::AidScope>(text).unwrap();
    for (bounds, covers) in [
        (json!({ "projects": ["*"], "environments": ["*"] }), true),
        (json!({ "projects": ["at-source"], "environments": ["*"] }), false),
        (json!({ "projects": ["*"], "environments": ["default"] }), false),
        (json!({ "projects": ["*"], "environments": ["*"], "categories": ["corp"] }), false),
        (json!({ "projects": ["*"], "environments": ["*"], "secret_patterns": ["*"] }), false),
        (
            json!({
                "projects": ["*"], "environments": ["*"], "secret_patterns": ["vault://prod/db"],
            }),
            true,
        ),
    ] {
        assert_eq!(scope(bounds.clone()).covers(&place, &none), covers, "{bounds}");
    }
}

#[test]
fn each_condition_has_its_reason() {
    let scene = || Scene::of(of_section_8_6(), "shop/development/api/token");
    let conditions = |key: &str, value: Value| {
        let mut grant = of_section_8_6();
        grant["permissions"][0]["conditions"][key] = value;
        grant
    };
    assert!(scene().is_allowed());
    let other = |change: fn(&mut Scene)| {
        let mut scene = scene();
        change(&mut scene);
        scene.denied()
    };
    assert_eq!(other(|s| s.now = "2026-02-08T08:59:59Z"), DenyReason::NotYetValid);
    assert_eq!(other(|s| s.now = "2026-02-08T18:00:01Z"), DenyReason::Expired);
    assert_eq!(other(|s| s.trust = TrustLevel::L0), DenyReason::TrustLevel);
    assert_eq!(other(|s| s.repository = "github.com/evil/fork"), DenyReason::Context);
    assert_eq!(other(|s| s.paths = vec!["shop/production/api/token"]), DenyReason::Environment);
    assert_eq!(other(|s| s.paths = vec!["shop/development/mail/token"]), DenyReason::NoGrant);
    assert_eq!(other(|s| s.action = ActionType::SdkProxy), DenyReason::NoGrant);
    assert_eq!(other(|s| s.counted.uses = 100), DenyReason::Exhausted);
    // Both ends belong to it, whoever is asked.
    let at =
        PermissionRef { grant: GrantId::parse("grant_daily_dev_2026-02-08").unwrap(), index: 0 };
    for (now, is_in_time) in [
        ("2026-02-08T08:59:59.999Z", false),
        ("2026-02-08T09:00:00Z", true),
        ("2026-02-08T18:00:00Z", true),
        ("2026-02-08T18:00:00.001Z", false),
    ] {
        let scene = Scene { now, ..scene() };
        assert_eq!(scene.is_allowed(), is_in_time, "{now}");
        assert_eq!(scene.ask(|_, index, _, now| index.holds(&at, now)), is_in_time, "{now}");
    }

    let with = |key, value| Scene { grants: vec![conditions(key, value)], ..scene() };
    let ranged =
        |source_ip| Scene { source_ip, ..with("allowed_ip_ranges", json!(["10.0.0.0/8", "::1"])) };
    assert!(ranged(Some("10.1.2.3")).is_allowed() && ranged(Some("::ffff:10.1.2.3")).is_allowed());
    assert_eq!(ranged(Some("11.0.0.1")).denied(), DenyReason::Address);
    // Whichever of the two is in the coat, or both.
    for range in ["::ffff:10.1.0.0/112", "::ffff:a01:203", "10.1.2.3"] {
        for (address, lies_within) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.2.3", false),
            ("::a01:203", false),
        ] {
            let ranged =
                Scene { source_ip: Some(address), ..with("allowed_ip_ranges", json!([range])) };
            assert_eq!(ranged.is_allowed(), lies_within, "{range} {address}");
        }
    }
    assert_eq!(ranged(None).denied(), DenyReason::Address);
    assert_eq!(other(|s| s.writes = true), DenyReason::Writes);
    let writing = Scene {
        writes: true,
        ..Scene::of(conditions("allow_writes", json!(true)), scene().paths[0])
    };
    assert!(writing.is_allowed());
    let busy = Scene {
        counted: Counted { running: 2, recent: 9, uses: 0 },
        ..with("max_concurrent", json!(2))
    };
    assert_eq!(busy.denied(), DenyReason::Concurrency);
    let fast = Scene {
        counted: Counted { running: 2, recent: 9, uses: 0 },
        ..with("max_per_minute", json!(9))
    };
    assert_eq!(fast.denied(), DenyReason::Rate);
    // The customer's text: 0 is no limit (C-02).
    let unlimited = Scene {
        counted: Counted { uses: 1000, ..Counted::default() },
        ..with("max_uses", json!(0))
    };
    assert!(unlimited.is_allowed());
    let strict: Grant = serde_json::from_value(conditions("max_uses", json!(0))).unwrap();
    assert_eq!(strict.clone().under(Profile::Final).0.permissions[0].conditions.max_uses, Some(0));
    assert!(strict.under(Profile::Seed).1);
}

#[test]
fn a_person_is_asked_only_about_what_could_be() {
    let asks =
        Scene { trust: TrustLevel::L2, ..Scene::of(of_section_8_2(), "shop/production/mail/key") };
    assert!(matches!(asks.verdict(), Verdict::Ask(needed) if needed.each.len() == 1));
    assert_eq!(
        Scene { trust: TrustLevel::L1, ..Scene::of(of_section_8_2(), "shop/production/mail/key") }
            .denied(),
        DenyReason::TrustLevel
    );
    let Verdict::Allow(allowance) = (Scene { approved: true, ..asks }).verdict() else {
        panic!("not allowed")
    };
    assert_eq!(allowance.permissions()[0].index, 1);
    assert_eq!(allowance.into_allowed()[0].1.path().as_str(), "shop/production/mail/key");
}

#[test]
fn revoked_and_foreign_grants_are_none() {
    for (pointer, value) in [
        ("/revoked", json!(true)),
        ("/organization_id", json!("org_other")),
        ("/instance_id", json!("650e8400-e29b-41d4-a716-446655440000")),
        ("/agent_uri", json!("nl://anthropic.com/claude-code/1.5.3")),
    ] {
        let mut grant = of_section_8_2();
        *grant.pointer_mut(pointer).unwrap() = value;
        let scene = Scene::of(grant, "shop/development/api/token");
        assert_eq!(scene.denied(), DenyReason::NoGrant, "{pointer}");
    }
    let Verdict::Deny(denial) = Scene::of(of_section_8_2(), "a/b/c").verdict() else { panic!() };
    assert_eq!(denial.code(), Code::GrantMissing);
}

#[test]
fn an_explanation_says_what_the_nearest_lacks() {
    let scene = Scene::of(of_section_8_2(), "shop/production/mail/key");
    let said = scene.ask(explain);
    assert_eq!(said[0].permission.index, 1);
    assert_eq!(said[0].lacks, [Lack::Condition(DenyReason::TrustLevel)]);
    assert!(said[1].lacks.contains(&Lack::Secret));
}

/// It names the secret and is the agent's: two conditions are nearer than another agent's grant that lacks nothing else.
#[test]
fn an_explanation_begins_with_what_is_the_agents_own() {
    let mut another = of_section_8_6();
    another["grant_id"] = json!("another");
    another["agent_uri"] = json!("nl://acme.corp/other/1.0.0");
    let mut own = of_section_8_6();
    own["revoked"] = json!(true);
    own["permissions"][0]["action_types"] = json!(["template"]);
    let scene =
        Scene { grants: vec![another, own], ..Scene::of(json!({}), "shop/development/api/key") };
    let said = scene.ask(explain);
    assert_eq!(said[0].lacks, [Lack::Action, Lack::Revoked]);
    assert_eq!(said[1].lacks, [Lack::Agent]);
}

#[test]
fn what_can_never_permit_anything_is_no_grant() {
    let faults = |place: &str, value: Value| {
        let mut grant = of_section_8_6();
        *grant.pointer_mut(place).unwrap() = value;
        let now = "2026-02-08T12:00:00Z".parse().unwrap();
        serde_json::from_value::<Grant>(grant).unwrap().faults(now)
    };
    assert_eq!(faults("/revocable", json!(true)), [""; 0]);
    // Each says what is expected, beside the field.
    let told = |place: &str, value: Value, named: &str| {
        let [fault] = faults(place, value)[..] else { panic!("{place}") };
        assert!(fault.starts_with(&format!("{named} (")) && fault.ends_with(')'), "{fault}");
    };
    told("/revoked", json!(true), "revoked");
    told("/permissions", json!([]), "permissions");
    told("/granted_by/type", json!("robot"), "granted_by.type");
    told("/permissions/0/action_types", json!(["exec", "egress"]), "permissions.action_types");
    for (name, value) in [
        ("allowed_environments", json!([])),
        ("allowed_environments", json!([""])),
        ("allowed_environments", json!(["prod", "a b"])),
        ("allowed_environments", json!(["a/b"])),
        ("allowed_ip_ranges", json!([])),
        ("max_concurrent", json!(0)),
        ("max_per_minute", json!(0)),
    ] {
        let mut conditions = of_section_8_6()["permissions"][0]["conditions"].clone();
        conditions[name] = value;
        told("/permissions/0/conditions", conditions, &format!("permissions.conditions.{name}"));
    }
    let mut conditions = of_section_8_6()["permissions"][0]["conditions"].clone();
    conditions["allowed_environments"] = json!(["Production", "eu-1"]);
    assert_eq!(faults("/permissions/0/conditions", conditions), [""; 0]);
    for (name, value, told) in [
        (
            "valid_until",
            json!("2026-02-08T11:59:59Z"),
            Some("(it is over already: give a later time)"),
        ),
        ("valid_until", json!("2026-02-08T12:00:00Z"), None),
        ("min_trust_level", json!("L3"), Some("(no agent has L3: give L2, or less)")),
        ("min_trust_level", json!("L2"), None),
        (
            "allowed_ip_ranges",
            json!(["::1", "::ffff:10.0.0.0/8"]),
            Some("(a range of IPv4 is written as such: 10.0.0.0/8)"),
        ),
        ("allowed_ip_ranges", json!(["::ffff:10.0.0.0/104", "::/0", "fd00::/8"]), None),
    ] {
        let mut conditions = of_section_8_6()["permissions"][0]["conditions"].clone();
        conditions[name] = value;
        let told = told.map(|words| format!("permissions.conditions.{name} {words}"));
        let told: Vec<String> = told.into_iter().collect();
        assert_eq!(faults("/permissions/0/conditions", conditions), told, "{name}");
    }
}

#[test]
fn another_organizations_grants_are_not_explained() {
    let mut grant = of_section_8_2();
    grant["organization_id"] = json!("org_other");
    let scene = Scene::of(grant, "shop/production/mail/key");
    assert!(scene.ask(explain).is_empty());
}

/// Which of two permissions decides must not matter: what one of them lets a value reach is reached, whatever the other
/// says, and taking away either opens nothing.
#[test]
fn hosts_are_those_of_all_permissions_that_allow() {
    let grant = |id: &str, hosts: Value| {
        let mut grant = of_section_8_6();
        grant["grant_id"] = json!(id);
        grant["permissions"][0]["conditions"]["allowed_hosts"] = hosts;
        grant
    };
    let (wide, narrow) = (grant("grant_1", json!([])), grant("grant_2", json!(["a.x.example"])));
    let other = grant("grant_3", json!(["*.x.example", "c.example"]));
    let of = |grants: &[&Value]| {
        let grants = grants.iter().map(|grant| (*grant).clone()).collect();
        let scene = Scene { grants, ..Scene::of(Value::Null, "shop/development/api/token") };
        let Verdict::Allow(allowance) = scene.verdict() else { panic!("not allowed") };
        let hosts = allowance.allowed_hosts().iter().map(ToString::to_string);
        (hosts.collect::<Vec<_>>().join(" "), allowance.grants().len())
    };
    assert_eq!(of(&[&wide, &wide]), (String::new(), 1));
    assert_eq!(of(&[&wide, &narrow]), ("a.x.example".to_owned(), 1));
    assert_eq!(of(&[&narrow, &wide]), ("a.x.example".to_owned(), 1));
    assert_eq!(of(&[&narrow, &wide, &other]).1, 2);
    assert!(of(&[&narrow, &wide, &other]).0.contains("*.x.example"));
}

/// How much an answer lets happen, and which of these hosts may be reached then.
fn freedom(verdict: &Verdict) -> (u8, Vec<bool>) {
    let to = |text: &str| Authority::parse_for(text, Scheme::Https).unwrap();
    let hosts = ["a.x.example", "b.x.example", "c.example"].map(to);
    match verdict {
        Verdict::Deny(_) => (0, vec![false; hosts.len()]),
        Verdict::Ask(_) => (1, vec![false; hosts.len()]),
        Verdict::Allow(allowance) => {
            let reaches =
                |host| allowance.allowed_hosts().iter().any(|one| one.matches(Scheme::Https, host));
            (2, hosts.iter().map(reaches).collect())
        }
    }
}

/// Whether it leads to more than `a.x.example`.
fn is_wide(hosts: &Value) -> bool {
    hosts.as_array().unwrap().iter().any(|host| host == "*.x.example" || host == "a.x.example")
}

fn is_no_more((less, fewer): &(u8, Vec<bool>), (all, hosts): &(u8, Vec<bool>)) -> bool {
    less <= all && fewer.iter().zip(hosts).all(|(fewer, all)| fewer <= all)
}

prop_compose! {
    fn some_grant()(
        pattern in prop::sample::select(vec!["*", "api/*", "api/token", "shop/**", "shop/development/*", "mail/?*"]),
        action in prop::sample::select(vec!["*", "exec", "template"]),
        uses in prop::option::of(1_u64..4), approval in any::<bool>(), revoked in any::<bool>(),
        environments in prop::option::of(prop::sample::select(vec!["development", "production"])),
        until in 11_u8..14, trust in prop::option::of(prop::sample::select(vec!["L0", "L1", "L2"])),
        hosts in prop::sample::subsequence(vec!["a.x.example", "*.x.example", "c.example"], 0..3),
        number in 0_u32..1_000_000,
    ) -> Value {
        let mut conditions = json!({
            "valid_from": "2026-02-08T09:00:00Z", "valid_until": format!("2026-02-08T{until}:00:00Z"),
            "require_human_approval": approval,
        });
        conditions["allowed_hosts"] = json!(hosts);
        if let Some(uses) = uses { conditions["max_uses"] = json!(uses); }
        if let Some(name) = environments { conditions["allowed_environments"] = json!([name]); }
        if let Some(level) = trust { conditions["min_trust_level"] = json!(level); }
        json!({
            "grant_id": format!("grant_{number}"), "agent_uri": URI, "organization_id": "org_acme_corp_2024",
            "granted_by": { "type": "human", "identifier": "ann", "granted_at": "2026-02-08T09:00:00Z" },
            "permissions": [{ "action_types": [action], "secrets": [pattern], "conditions": conditions }],
            "revoked": revoked,
        })
    }
}

proptest! {
    #[test]
    fn less_granted_is_never_more_allowed(
        grants in prop::collection::vec(some_grant(), 1..5), which in any::<prop::sample::Index>(), uses in 0_u64..4,
        paths in prop::sample::subsequence(vec!["shop/development/api/token", "shop/development/mail/key"], 1..=2),
    ) {
        let counted = || Counted { uses, ..Counted::default() };
        let scene = |grants: Vec<Value>| {
            let scene = Scene::of(Value::Null, "");
            let (paths, counted) = (paths.clone(), counted());
            freedom(&Scene { grants, paths, counted, ..scene }.verdict())
        };
        let all = scene(grants.clone());
        let which = which.index(grants.len());
        let mut fewer = grants.clone();
        fewer.remove(which);
        prop_assert!(is_no_more(&scene(fewer), &all));
        for (pointer, tighter) in [
            ("/revoked", json!(true)),
            ("/permissions/0/conditions/require_human_approval", json!(true)),
            ("/permissions/0/conditions/valid_until", json!("2026-02-08T10:00:00Z")),
            ("/permissions/0/secrets", json!(["nothing/here"])),
            ("/permissions/0/action_types", json!(["delegate"])),
            ("/permissions/0/conditions/max_uses", json!(1)),
            ("/permissions/0/conditions/allowed_hosts", json!(["a.x.example"])),
        ] {
            let mut less = grants.clone();
            let place = less[which].pointer_mut(pointer);
            match pointer.rsplit('/').next() {
                // Only what was wider becomes narrower.
                Some("allowed_hosts") if !place.as_ref().is_some_and(|hosts| is_wide(hosts)) => continue,
                Some("max_uses") => less[which]["permissions"][0]["conditions"]["max_uses"] = tighter,
                _ => *place.unwrap() = tighter,
            }
            prop_assert!(is_no_more(&scene(less), &all), "{pointer}");
        }
    }

    #[test]
    fn what_an_index_passes_over_names_nothing(
        pattern in "[ab*?]{1,3}(/[ab*?]{1,2}){0,3}", path in "[ab]{1,2}(/[ab]{1,2}){2,4}",
    ) {
        let mut grant = of_section_8_6();
        grant["permissions"][0]["secrets"] = json!([pattern]);
        let index = GrantIndex::new([serde_json::from_value::<Grant>(grant).unwrap()]);
        let subject = Subject::from(SecretPath::parse(&path).unwrap());
        let forms = subject.forms(&Categories::default());
        let fits = SecretPattern::parse(&pattern).unwrap().matches(&forms);
        let uri = AgentUri::parse(URI).unwrap();
        prop_assert!(!fits || index.candidates(&uri, &forms).count() == 1);
    }
}

proptest! {
    #[test]
    fn what_lies_within_names_nothing_more(
        inner in "[ab*?]{1,3}(/[ab*?]{1,3}){0,3}",
        wide in "[ab*?]{1,3}(/[ab*?]{1,3}){0,3}",
        path in "[ab]{1,2}(/[ab]{1,2}){2,4}",
    ) {
        let (inner, wide) = (SecretPattern::parse(&inner).unwrap(), SecretPattern::parse(&wide).unwrap());
        let path = SecretPath::parse(&path).unwrap();
        let subject = Subject::from(path.clone());
        let categories = Categories::of([&path]);
        let forms = subject.forms(&categories);
        prop_assert!(!inner.is_within(&wide) || !inner.matches(&forms) || wide.matches(&forms));
    }
}

proptest! {
    /// What lies within bounds is never taken for something beyond them, however it is written.
    #[test]
    fn what_a_scope_covers_it_leaves_room_for(
        project in "[ab]", environment in "[ab]", category in "[ab]", name in "[ab]{1,2}",
        listed in proptest::collection::vec("[ab]|\\*", 1..3),
        pattern in "([ab*?]{1,2}/){0,3}[ab*?]{1,2}",
    ) {
        let path = SecretPath::parse(&format!("{project}/{environment}/{category}/{name}")).unwrap();
        let categories = Categories::of([&path]);
        let subject = Subject::from(path);
        let scope = crate::agent::AidScope {
            projects: listed.clone(),
            environments: listed.clone(),
            categories: Some(listed),
            secret_patterns: Some(vec![SecretPattern::parse(&pattern).unwrap()]),
        };
        let written = [
            format!("{project}/{environment}/{category}/{name}"),
            format!("{project}/{environment}/{name}"),
        ];
        for text in written {
            let reference = crate::Reference::parse(&text).unwrap();
            prop_assert!(
                !scope.covers(&subject, &categories) || scope.leaves_room_for(&reference),
                "{text}"
            );
        }
    }
}
