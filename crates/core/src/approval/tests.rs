use super::*;
use crate::ApproveOnUse;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn request(asked: Asked) -> Request {
    let id = FullRequestId::parse("010203abcdef0123456789abcdef0042").unwrap();
    let path = SecretPath::parse("team/jira/api-key").unwrap();
    Request::new(id, Some(path), asked, "m-1", None, at(0))
}

fn deploy() -> Asked {
    let word = |text: &str| text.to_owned();
    let path = word("/home/u/.codex/AGENTS.md");
    let file = WantedFile { op: FileOp::Create, path, adopted: false, edited: false, diff: None };
    let wanted = WantedDeploy {
        verb: PackVerb::Deploy,
        plan_hash: "a".repeat(64),
        project: word("/home/u/p"),
        repo: word("/home/u/.agentpack/repo"),
        profile: word("default"),
        machine: word("m"),
        files: vec![file],
        more_files: 0,
    };
    Asked::DeployApply { wanted: Box::new(wanted) }
}

fn action() -> Asked {
    let wanted = WantedAction {
        agent: "nl://acme.corp/bot/1.0.0".parse().unwrap(),
        acting_for: None,
        action: crate::ActionType::Exec,
        secrets: vec![SecretPath::parse("team/jira/api-key").unwrap()],
        hosts: Vec::new(),
        text: "true {{nl:A}}".to_owned(),
        purpose: None,
        purpose_sha256: None,
        sha256: "b".repeat(64),
    };
    Asked::ActionApproval { wanted: Box::new(wanted) }
}

fn use_approval() -> Request {
    request(Asked::use_approval("pushing an image".to_owned()))
}

#[test]
fn ids_have_the_shape_of_the_spec() {
    let Request { id, full_id, .. } = request(Asked::provision());
    assert_eq!(id.as_str(), "prov-010203abcdef");
    let bytes = 0x0102_03ab_cdef_0123_4567_89ab_cdef_0042_u128.to_be_bytes();
    assert_eq!(full_id, Some(FullRequestId::from_random(bytes)));
    assert_eq!(FullRequestId::from_random([0; 16]).name().as_str(), "prov-000000000000");
    assert_eq!(RequestId::parse("prov-010203abcdef"), Some(id));
    for bad in ["", "prov-", "prov-010203abcde", "prov-010203abcdeF", "prov-010203abcdefa", "x"] {
        assert_eq!(RequestId::parse(bad), None, "{bad}");
    }
}

#[test]
fn each_kind_takes_its_own_answers() {
    let all = || {
        [
            Decision::AllowOnce,
            Decision::AllowSession,
            Decision::Cancel,
            Decision::Deny,
            Decision::Fail(Code::DiskFull),
            Decision::Fulfil(Outcome::default()),
        ]
    };
    let ends = |request: &Request| {
        let settle = |decision| request.settle(decision, at(1)).ok();
        let words = all().into_iter().filter_map(settle).map(|settled| settled.status(at(1)));
        words.map(Status::as_str).collect::<Vec<_>>()
    };
    assert_eq!(ends(&use_approval()), ["once", "session", "denied", "failed"]);
    for one_deed in [action(), deploy()] {
        assert_eq!(ends(&request(one_deed)), ["once", "denied", "failed"]);
    }
    let fields = Fields { rotate_every_days: Some(60), ..Fields::default() };
    for asked in [
        Asked::provision(),
        Asked::rotation(),
        Asked::metadata(fields.clone()),
        Asked::new_path(fields),
    ] {
        assert_eq!(ends(&request(asked)), ["cancelled", "denied", "failed", "ok"]);
    }
}

#[test]
fn a_late_answer_does_nothing() {
    let request = request(Asked::provision());
    assert_eq!(request.status(at(299)), Status::Pending);
    assert_eq!(request.status(at(300)), Status::Expired);
    let late = request.settle(Decision::Fulfil(Outcome::default()), at(300)).unwrap_err();
    assert_eq!(late.code(), Code::RequestSettled);
    assert_eq!(late.detail().as_str(), "prov-010203abcdef is expired");
}

#[test]
fn a_settled_request_never_changes() {
    let denied = use_approval().settle(Decision::Deny, at(5)).unwrap();
    assert_eq!(denied.status(at(10_000)), Status::Denied);
    assert!(denied.settle(Decision::AllowOnce, at(6)).is_err());
}

#[test]
fn a_clock_that_goes_back_gives_no_time() {
    assert_eq!(use_approval().status(at(-10)), Status::Pending);
    assert_eq!(use_approval().status(at(-31)), Status::Expired);
    let once = use_approval().settle(Decision::AllowOnce, at(100)).unwrap();
    assert!(once.allows_use(at(100)) && !once.allows_use(at(60)));
}

#[test]
fn time_to_live_only_narrows() {
    let narrowed = |seconds| {
        let Request { full_id, path, asked, .. } = use_approval();
        let life = Some(SignedDuration::from_secs(seconds));
        Request::new(full_id.unwrap(), path, asked, "m-1", life, at(0)).expires_at
    };
    assert_eq!(narrowed(60), at(60));
    assert_eq!(narrowed(86_400), at(300));
    let again = |seconds| use_approval().narrowed(SignedDuration::from_secs(seconds), at(100));
    assert_eq!(again(2).map(|request| request.expires_at), Some(at(102)));
    assert_eq!(again(200), None);
}

#[test]
fn approvals_end() {
    let once = use_approval().settle(Decision::AllowOnce, at(0)).unwrap();
    assert!(once.allows_use(at(299)) && !once.allows_use(at(300)));
    assert!(!once.over().allows_use(at(1)));
    let session = use_approval().settle(Decision::AllowSession, at(0)).unwrap();
    assert!(session.allows_use(at(8 * 3600 - 1)) && !session.allows_use(at(8 * 3600)));
    assert_eq!(session.over().status(at(1)), Status::Session);
    assert!(!use_approval().allows_use(at(1)));
}

#[test]
fn denials_are_remembered_for_a_while() {
    let denied = use_approval().settle(Decision::Deny, at(0)).unwrap();
    assert!(denied.denies(at(599)) && !denied.denies(at(600)));
    assert!(!denied.over().denies(at(1)));
    let declined = request(Asked::provision()).settle(Decision::Deny, at(0)).unwrap();
    assert!(declined.denies(at(599)) && !declined.denies(at(600)));
    let cancelled = request(Asked::provision()).settle(Decision::Cancel, at(0)).unwrap();
    assert!(!cancelled.denies(at(1)));
}

#[test]
fn a_no_is_one_to_what_is_the_same() {
    let days = |rotate_every_days| {
        let fields = Fields { rotate_every_days: Some(rotate_every_days), ..Fields::default() };
        [Asked::metadata(fields.clone()), Asked::new_path(fields)]
    };
    let said = Fields { description: Some("CI".to_owned()), ..Fields::default() };
    let all: Vec<Asked> = [Asked::provision(), Asked::rotation(), use_approval().asked]
        .into_iter()
        .chain(days(30))
        .chain(days(60))
        .collect();
    for (index, one) in all.iter().enumerate() {
        for (other, asked) in all.iter().enumerate() {
            // What is declared of it meanwhile makes it no other question.
            let asked = asked.clone().with_declared(&said, ApproveOnUse::Session);
            assert_eq!(one.is_denied_with(&asked), index == other, "{one:?} {asked:?}");
        }
    }
}

#[test]
fn what_nobody_should_have_to_read_is_refused() {
    let fields = |change: fn(&mut Fields)| {
        let mut fields = Fields { description: Some("CI".to_owned()), ..Fields::default() };
        change(&mut fields);
        Asked::metadata(fields)
    };
    let reason = |reason: String| Asked::use_approval(reason);
    for bad in [
        fields(|fields| *fields = Fields::default()),
        fields(|fields| fields.description = Some("a\nb".to_owned())),
        fields(|fields| fields.description = Some("x".repeat(1025))),
        fields(|fields| fields.retrieval_url = Some("http://a.test".to_owned())),
        fields(|fields| fields.retrieval_url = Some("javascript:x".to_owned())),
        fields(|fields| fields.retrieval_url = Some("https://a.test/\u{202e}".to_owned())),
        fields(|fields| fields.rotate_every_days = Some(0)),
        fields(|fields| fields.pattern_id = Some("A b".to_owned())),
        fields(|fields| fields.pattern_id = Some(String::new())),
        reason(" \n".to_owned()),
        reason("\u{200b}".to_owned()),
        reason("\u{feff} \u{2060}\u{1}".to_owned()),
        reason("x".repeat(501)),
    ] {
        assert_eq!(bad.check().unwrap_err().code(), Code::Usage, "{bad:?}");
    }
    fields(|fields| fields.retrieval_url = Some("https://a.test/x?y".to_owned())).check().unwrap();
    reason("x".repeat(500)).check().unwrap();
    // Others join letters by what is not seen.
    reason("\u{200d}x".to_owned()).check().unwrap();
}

#[test]
fn the_stored_forms_are_these() {
    let asked = Asked::use_approval("r".to_owned());
    assert_eq!(serde_json::to_string(&asked).unwrap(), r#"{"kind":"use-approval","reason":"r"}"#);
    assert_eq!(serde_json::to_string(&Asked::provision()).unwrap(), r#"{"kind":"provision"}"#);
    assert_eq!(serde_json::to_string(&Asked::rotation()).unwrap(), r#"{"kind":"rotation"}"#);
    let asked = Asked::rotation().with_declared(&Fields::default(), ApproveOnUse::PerCall);
    let text = serde_json::to_string(&asked).unwrap();
    assert_eq!(text, r#"{"kind":"rotation","policy":"per-call"}"#);
    assert_eq!(serde_json::from_str::<Asked>(&text).unwrap(), asked);
    for asked in [action(), deploy()] {
        asked.check().unwrap();
        let text = serde_json::to_string(&asked).unwrap();
        assert_eq!(serde_json::from_str::<Asked>(&text).unwrap(), asked);
    }
    let failed = Status::Failed { code: Code::DiskFull };
    let text = serde_json::to_string(&failed).unwrap();
    assert_eq!(text, r#"{"kind":"failed","code":"disk_full"}"#);
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), failed);
}

#[test]
fn a_no_is_for_its_deed_and_a_yes_for_what_was_said_of_it_too() {
    let again = |change: fn(&mut WantedAction)| {
        let Asked::ActionApproval { mut wanted } = action() else { unreachable!("an action") };
        change(&mut wanted);
        Asked::ActionApproval { wanted }
    };
    let other_words = again(|wanted| wanted.purpose = Some("nightly".to_owned()));
    assert!(action().is_same_permission(&other_words));
    let other_deed = again(|wanted| wanted.sha256 = "c".repeat(64));
    assert!(!action().is_same_permission(&other_deed));
    // A person who has read one purpose has not said yes to another, be it one that looks the same.
    let other_end = again(|wanted| wanted.purpose_sha256 = Some("d".repeat(64)));
    assert!(action().is_same_permission(&other_end));
    for other in [&other_words, &other_end, &other_deed] {
        assert!(!action().is_good_for(other) && action().is_good_for(&action()));
    }
    // A no stands however far it would go; a yes goes as far as was shown.
    let further = again(|wanted| wanted.hosts = vec!["a.test".parse().unwrap()]);
    let for_another = again(|wanted| wanted.acting_for = Some(wanted.agent.clone()));
    for other in [&further, &for_another] {
        assert!(action().is_same_permission(other));
        assert!(!action().is_good_for(other) && !other.is_good_for(&action()));
    }
    let Asked::ActionApproval { wanted } = action() else { unreachable!("an action") };
    let [one, other] = [["a.test", "b.test"], ["b.test", "a.test"]].map(|names| {
        let mut wanted = wanted.clone();
        wanted.hosts = names.iter().map(|name| name.parse().unwrap()).collect();
        Asked::ActionApproval { wanted }
    });
    assert!(one.is_good_for(&other), "in any order");
    assert!(
        deploy().is_good_for(&deploy()) && use_approval().asked.is_good_for(&use_approval().asked)
    );
    assert!(deploy().is_same_permission(&deploy()) && !deploy().is_same_permission(&action()));
    assert!(!Asked::provision().is_same_permission(&Asked::provision()));
}

#[test]
fn what_nobody_asks_for_any_more_is_over() {
    let waits = use_approval();
    let gone = waits.abandoned(at(10));
    assert_eq!((gone.status(at(11)), gone.denies(at(11))), (Status::Expired, false));
    assert!(gone.settle(Decision::AllowOnce, at(12)).is_err());
    let allowed = waits.settle(Decision::AllowSession, at(10)).unwrap();
    let gone = allowed.abandoned(at(20));
    assert_eq!((gone.status(at(21)), gone.allows_use(at(21))), (Status::Session, false));
}
