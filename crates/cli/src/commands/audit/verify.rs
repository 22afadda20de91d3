//! `keyless audit verify`: whether every entry is what was written, and who says so.

use std::{process::ExitCode, time::Instant};

use jiff::Timestamp;
use keyless_core::{
    Error,
    audit::{Break, Mismatch, Segment},
};
use keyless_daemon::{LogCheck, TamperedAt, Unverified, VerifiedChain, VerifiedLog};
use serde_json::{Value, json};

use super::super::{open_sure_store, prompt};
use crate::{args::VerifyArgs, ui::Ui};

pub(super) async fn run(ui: &Ui, args: VerifyArgs) -> Result<ExitCode, Error> {
    let (places, store) = open_sure_store(ui).await?;
    let factor = match prompt::factor_file(&args.factor) {
        Some(_) => Some(prompt::factor(&args.factor)?),
        None => None,
    };
    let (sealed, incremental) = (factor.is_some(), args.incremental);
    let check = LogCheck { factor, incremental, checkpoints: args.checkpoints, key: args.key };
    let begun = Instant::now();
    let verifying = keyless_daemon::verify_log(store, &places, check);
    let verified = ui.wait("Verifying the log", verifying).await;
    let run = json!({
        "verification": if incremental { "incremental" } else { "full" },
        "timestamp": format!("{:.3}", Timestamp::now()),
        "duration_ms": u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    match verified {
        Ok(log) => {
            let words = words(&log, sealed, incremental);
            ui.answer("audit verify", &joined(run, data(&log, sealed)), &words);
            Ok(ExitCode::SUCCESS)
        }
        Err(Unverified { error, place: Some(place) }) => {
            let data = joined(run, tampered(&place, &error));
            Ok(ui.fail_with("audit verify", &error, &data))
        }
        Err(Unverified { error, place: None }) => Err(error),
    }
}

fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// NL's result of a failed verification (chapter 5). What is expected is what an entry's content gives, or the hash of the
/// entry before it; what is found is what stands in the entry.
fn tampered(place: &TamperedAt, error: &Error) -> Value {
    let mut at = json!({ "type": place.kind, "detail": error.detail().to_string() });
    if let Some(sequence) = place.sequence {
        at["sequence"] = sequence.into();
    }
    if !place.chain.is_empty() {
        at["chain"] = place.chain.clone().into();
    }
    if let Some(Mismatch { expected, actual }) = &place.hashes {
        for (member, hash) in [("expected_hash", expected), ("actual_hash", actual)] {
            if let Some(hash) = hash {
                at[member] = hash.clone().into();
            }
        }
    }
    json!({ "status": "tampered", "tamper_detected_at": at })
}

fn data(log: &VerifiedLog, sealed: bool) -> Value {
    let VerifiedLog { chains, checkpoints, elsewhere } = log;
    let read: u64 = chains.iter().map(|chain| chain.read).sum();
    let mut data = json!({
        "entries": entries(chains), "entries_verified": read, "status": status(chains), "head_checked": sealed,
        "checkpoints": checkpoints, "checkpoints_elsewhere": elsewhere, "removed": removed(chains),
    });
    if let [chain] = &chains[..] {
        data = joined(data, span(chain));
    }
    if sealed {
        let (with, without) = vouched(chains);
        data["hmac"] = json!({ "verified": with, "absent": without, "keys": keys(chains) });
    }
    let breaks: Vec<Value> = breaks(chains).map(break_data).collect();
    if !breaks.is_empty() {
        data["breaks"] = breaks.into();
    }
    let named: Vec<_> = named(chains).collect();
    if !named.is_empty() {
        let chain = |chain: &&VerifiedChain| {
            let known = json!({ "chain": chain.name, "entries": chain.entries, "entries_verified": chain.read });
            joined(known, span(chain))
        };
        data["chains"] = named.iter().map(chain).collect();
    }
    data
}

/// Which entries were read, if any.
fn span(chain: &VerifiedChain) -> Value {
    let first = (chain.read > 0).then_some(chain.entries - chain.read + 1);
    json!({ "first_sequence": first, "last_sequence": first.map(|_| chain.entries) })
}

fn words(log: &VerifiedLog, sealed: bool, incremental: bool) -> String {
    let VerifiedLog { chains, checkpoints, elsewhere } = log;
    let end = if sealed {
        "; the end is sealed by the vault's key."
    } else {
        ". With --passphrase-file the vault's key is asked about the end of the log and each entry too."
    };
    let which = if incremental { "those since the newest checkpoint" } else { "all" };
    let but = match breaks(chains).count() {
        0 => "",
        _ => " but for what was accepted",
    };
    let mut words =
        format!("{} entries, {which} as they were written{but}{end}\n", entries(chains));
    words.extend(breaks(chains).map(|(part, seen)| break_words(part, seen)));
    if sealed {
        words += &vouched_words(chains);
    }
    match removed(chains) {
        0 => {}
        count => {
            let told = format!("{count} of them were removed since, as [audit] keep_days says.\n");
            words.push_str(&told);
        }
    }
    match checkpoints {
        0 => {}
        1 => words += "1 checkpoint fits.\n",
        count => words.extend([format!("{count} checkpoints fit.\n")]),
    }
    if *elsewhere > 0 {
        let told = "more are about entries that were removed or are on another machine: verify with --checkpoints there.";
        words.extend([format!("{elsewhere} {told}\n")]);
    }
    let chain = |chain: &VerifiedChain| format!("  {}: {} entries\n", chain.name, chain.entries);
    words + &named(chains).map(chain).collect::<String>()
}

fn status(chains: &[VerifiedChain]) -> &'static str {
    if breaks(chains).next().is_some() { "break_accepted" } else { "valid" }
}

/// The parts that are not what was written, as the operator has seen.
fn breaks(chains: &[VerifiedChain]) -> impl Iterator<Item = (&Segment, &Break)> {
    let parts = chains.iter().flat_map(|chain| &chain.breaks);
    parts.filter_map(|part| part.broken.as_ref().map(|seen| (part, seen)))
}

fn break_data((part, seen): (&Segment, &Break)) -> Value {
    json!({
        "from": seen.from, "to": part.last_sequence, "found": seen.found, "accepted_at": seen.accepted_at,
        "file": part.file, "entries": seen.entries, "genuine": seen.genuine, "chain": part.chain,
    })
}

fn break_words(part: &Segment, seen: &Break) -> String {
    format!(
        "Entries {} to {} are not: {}. Accepted {}; of them {} are in {}, {} with an HMAC that is right.\n",
        seen.from,
        part.last_sequence,
        seen.found,
        seen.accepted_at,
        seen.entries,
        part.file,
        seen.genuine
    )
}

/// What the log's keys say of the entries that were read.
fn vouched_words(chains: &[VerifiedChain]) -> String {
    let (with, without) = vouched(chains);
    let by = match &*keys(chains) {
        [] => String::new(),
        [only] => format!(" by {only}"),
        [first, .., last] => format!(" by {first} to {last}"),
    };
    let mut words = format!("{with} of them have an HMAC{by}, and it is right.\n");
    if without > 0 {
        let told = format!(
            "Without one: {without}, written while the vault was locked or by a Keyless that made none. They rest on the \
             chain alone.\n"
        );
        words.push_str(&told);
    }
    words
}

fn entries(chains: &[VerifiedChain]) -> u64 {
    chains.iter().map(|chain| chain.entries).sum()
}

fn removed(chains: &[VerifiedChain]) -> u64 {
    chains.iter().map(|chain| chain.removed).sum()
}

/// How many of the entries that were read have an HMAC, and how many none.
fn vouched(chains: &[VerifiedChain]) -> (u64, u64) {
    let said = chains.iter().map(|chain| &chain.vouching);
    said.fold((0, 0), |(with, without), said| (with + said.with, without + said.without))
}

/// The first and the last of their keys.
fn keys(chains: &[VerifiedChain]) -> Vec<String> {
    let spans = || chains.iter().filter_map(|chain| chain.vouching.keys);
    let first = spans().map(|(first, _)| first).min();
    let last = spans().map(|(_, last)| last).max().filter(|last| Some(*last) != first);
    first.into_iter().chain(last).map(|key| key.to_string()).collect()
}

fn named(chains: &[VerifiedChain]) -> impl Iterator<Item = &VerifiedChain> {
    chains.iter().filter(|chain| !chain.name.is_empty())
}
