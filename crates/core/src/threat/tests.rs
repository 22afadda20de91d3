//! Scores by the protocol's formula, and what only the operator may undo.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    Code,
    deny::{Attempt, Category, Decision, Given, Guard},
};
use AttackType::{Denial, EncodingBypass, FileAccess, SecretInOutput};

fn at(hours: i64) -> Timestamp {
    "2026-02-08T10:30:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(hours)
}

fn seen(attack: AttackType, hours: i64) -> Incident {
    Incident::new(attack, DetectionMethod::PatternMatching, at(hours))
}

fn behaved(count: usize) -> Vec<Incident> {
    vec![Incident::new(Denial, DetectionMethod::BehavioralAnalysis, at(0)); count]
}

fn with(incidents: &[Incident]) -> ThreatRecord {
    let mut record = ThreatRecord::default();
    record.add(incidents, &Scale::default(), at(0));
    record
}

#[test]
fn scores_follow_the_formula() {
    let score = |incidents: &[Incident]| with(incidents).standing(&Scale::default(), at(0)).score;
    assert_eq!(score(&[]), 0);
    assert_eq!(score(&[seen(SecretInOutput, 0)]), 60);
    // 2 · 0.5 · (1 + log2 2), and no more than 100.
    assert_eq!(score(&[seen(FileAccess, 0), seen(FileAccess, 0)]), 100);
    // 0.4 · e^-0.5, and 0.4 · e^-1.5: outside the day it counts by itself.
    assert_eq!(with(&[seen(EncodingBypass, 0)]).standing(&Scale::default(), at(10)).score, 24);
    assert_eq!(score(&[seen(EncodingBypass, -30)]), 9);
    assert_eq!(score(&[Incident::honeypot(at(0))]), 80);
    // 5 · 0.01 · (1 + 2.32)
    assert_eq!(score(&behaved(5)), 17);
}

#[test]
fn bands_begin_where_the_protocol_says() {
    let band = |incidents: &[Incident]| with(incidents).standing(&Scale::default(), at(0)).band;
    assert_eq!(band(&behaved(5)), Band::Green);
    assert_eq!(band(&[seen(EncodingBypass, 0)]), Band::Yellow);
    assert_eq!(band(&[seen(SecretInOutput, 0)]), Band::Orange);
    assert_eq!(band(&[Incident::honeypot(at(0))]), Band::Red);
    // However often it asked for what it may not have: mistakes are no proof.
    assert_eq!(band(&behaved(200)), Band::Yellow);
}

#[test]
fn mistakes_weigh_so_much_together_and_are_soon_forgotten() {
    let standing = |record: &ThreatRecord, hours| record.standing(&Scale::default(), at(hours));
    let many = behaved(256);
    let mistaken = with(&many);
    assert_eq!(standing(&mistaken, 0), Standing { score: 30, band: Band::Yellow });
    // Their sum alone would be as high for days.
    assert_eq!(standing(&mistaken, 1), Standing { score: 29, band: Band::Green });
    // Beside what is none they count, and still make nobody red.
    let with_one =
        |one| with(&[many.as_slice(), &[seen(one, 0)]].concat()).standing(&Scale::default(), at(0));
    assert_eq!(with_one(EncodingBypass), Standing { score: 70, band: Band::Orange });
    assert_eq!(with_one(SecretInOutput), Standing { score: 79, band: Band::Orange });
}

#[test]
fn the_operators_scale_counts_but_for_bait() {
    let scale = Scale::new([(SecretInOutput, 10)].into(), Some(1)).unwrap();
    let score = |incident: Incident, hours: i64| {
        let mut record = ThreatRecord::default();
        record.add(&[incident], &scale, at(0));
        record.standing(&scale, at(hours)).score
    };
    assert_eq!(score(seen(SecretInOutput, 0), 0), 10);
    // A type that is not named weighs what the protocol says, and half of it an hour later.
    assert_eq!(score(seen(EncodingBypass, 0), 0), 40);
    assert_eq!(score(seen(EncodingBypass, 0), 1), 20);
    assert_eq!(score(Incident::honeypot(at(0)), 0), 80);
    assert_eq!(Scale::new([(SecretInOutput, 101)].into(), None), Err(ScaleError::Weight));
    for hours in [0, 337] {
        assert_eq!(Scale::new([].into(), Some(hours)), Err(ScaleError::HalfLife));
    }
}

#[test]
fn time_makes_yellow_green_and_nothing_else_better() {
    let mut yellow = with(&[seen(EncodingBypass, 0)]);
    assert_eq!(yellow.standing(&Scale::default(), at(48)).band, Band::Green);
    let shift = yellow.add(&[], &Scale::default(), at(48));
    assert_eq!((shift.before.band, shift.after.band), (Band::Yellow, Band::Green));
    let orange = with(&[seen(SecretInOutput, 0)]);
    assert_eq!(
        orange.standing(&Scale::default(), at(48)),
        Standing { score: 5, band: Band::Orange }
    );
    let mut red = with(&[Incident::honeypot(at(0))]);
    assert_eq!(red.standing(&Scale::default(), at(480)), Standing { score: 80, band: Band::Red });
    red.add(&[seen(EncodingBypass, 480)], &Scale::default(), at(480));
    assert_eq!(red.standing(&Scale::default(), at(480)).band, Band::Red);
    let shift = red.reset(&Scale::default(), at(480));
    assert_eq!((shift.before.band, shift.after), (Band::Red, Standing::default()));
    assert_eq!(
        (red.standing(&Scale::default(), at(480)), red.incidents()),
        (Standing::default(), 0)
    );
}

#[test]
fn what_is_kept_is_bounded_and_read_again_as_it_was() {
    let mut record = with(&behaved(10_000));
    assert_eq!(record.incidents(), 256);
    // What is certain stays, however much behaviour comes behind.
    let mut both = with(&[seen(AttackType::BulkExport, 0)]);
    both.add(&behaved(10_000), &Scale::default(), at(0));
    assert!(serde_json::to_string(&both).unwrap().contains("\"T2\""));
    let stored = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<ThreatRecord>(&stored).unwrap(), record);
    record.add(&[], &Scale::default(), at(24 * 15));
    assert_eq!(record.incidents(), 0);
}

/// A command that shows a secret asks for it (T1, 20), as it stands in the protocol's table; what a shell would put into the
/// command's own text is T5.
#[test]
fn who_has_a_secret_shown_asks_for_it() {
    let guard = Guard::standard();
    for (text, rule, expected) in [
        ("echo {{nl:api/TOKEN}}", "KL-REFECHO", (AttackType::DirectRequest, 20)),
        ("print {{nl:api/TOKEN}}", "KL-REFECHO", (AttackType::DirectRequest, 20)),
        ("echo {{nl:api/TOKEN}} | base64", "KL-REFENC", (EncodingBypass, 40)),
        ("echo $API_TOKEN", "KL-SHOW", (AttackType::ShellExpansion, 40)),
    ] {
        let Decision::Block(blocked) = guard.check(&Attempt {
            action_type: "exec",
            text,
            given: Given::default(),
            now: at(0),
        }) else {
            panic!("{text}")
        };
        assert_eq!(blocked.rule_id, rule, "{text}");
        let seen = of_fault(blocked.code(), Some(blocked.category), at(0));
        assert_eq!(seen.iter().map(|one| one.attack).collect::<Vec<_>>(), [expected.0], "{text}");
        assert_eq!(with(&seen).standing(&Scale::default(), at(0)).score, expected.1, "{text}");
    }
}

#[test]
fn ends_of_actions_are_told_apart() {
    let of = |code, category| {
        let seen = of_fault(code, category, at(0));
        seen.iter().map(|incident| incident.attack.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(Code::ActionBlocked, Some(Category::InternalFileAccess)), "T10");
    assert_eq!(of(Code::ActionBlocked, Some(Category::Custom)), "");
    assert_eq!(of(Code::EvasionBlocked, Some(Category::Custom)), "T3");
    assert_eq!(of(Code::GrantMissing, None), "TX-1");
    assert_eq!(of(Code::ApprovalRequired, None), "");
    assert_eq!(of(Code::NonzeroExit, None), "");
    assert_eq!(of_redactions([].into_iter(), at(0)), []);
    assert_eq!(of_redactions([false].into_iter(), at(0)).len(), 1);
    assert_eq!(of_redactions([false, true].into_iter(), at(0)).len(), 2);
}
