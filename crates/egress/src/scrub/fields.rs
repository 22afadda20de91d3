//! The scrub of header and trailer sections.

use std::{borrow::Cow, ops::Range};

use http::{HeaderMap, HeaderName, HeaderValue};
use keyless_core::Error;
use keyless_rewrite::{Finding, FoundAs, Tally, merge_findings};
use zeroize::Zeroizing;

use super::{
    guarded,
    taken::Watch,
    values::{Known, Lengths},
};

/// Scrubs every field of a header or trailer section; one with a value in its *name* goes away.
pub(super) fn scrub_fields(watch: &Watch, fields: &mut HeaderMap) -> Result<(), Error> {
    let known = watch.slot.known();
    if known.count() == 0 || fields.is_empty() {
        return Ok(());
    }
    let mut tally = Tally::default();
    guarded(|| {
        scrub_echoes(&known, fields, &mut tally);
        scrub_disguises(&known, fields, &mut tally);
    })?;
    watch.taken.note(&known, &mut tally);
    Ok(())
}

fn scrub_echoes(known: &Known, fields: &mut HeaderMap, tally: &mut Tally) {
    let in_name = |name: &HeaderName| Some((name.clone(), known.in_name(name)?));
    let named: Vec<_> = fields.keys().filter_map(in_name).collect();
    for (name, value) in named {
        fields.remove(name);
        tally.note_as(value, FoundAs::Plain);
    }
    for value in fields.values_mut() {
        let rewriter = known.rewriter(Lengths::Free);
        if let Cow::Owned(scrubbed) = rewriter.rewrite_and_tell(value.as_bytes(), tally) {
            *value = field_value(&scrubbed);
        }
    }
}

/// Looks at all of them as at one text, since a value may stand in parts of it.
fn scrub_disguises(known: &Known, fields: &mut HeaderMap, tally: &mut Tally) {
    let (text, places) = lined_up(fields);
    let marking = known.marking();
    let findings = marking.find(&text);
    if findings.is_empty() {
        return;
    }
    for finding in &findings {
        tally.note(finding);
    }
    let mut named = Vec::new();
    for ((name, value), place) in fields.iter_mut().zip(places) {
        if findings.iter().any(|finding| meet(&finding.range, &place.name).is_some()) {
            named.push(name.clone());
        }
        let within = |finding: &Finding| {
            let part = meet(&finding.range, &place.value)?;
            let range = part.start - place.value.start..part.end - place.value.start;
            Some(Finding { range, ..finding.clone() })
        };
        let findings = merge_findings(findings.iter().filter_map(within));
        if !findings.is_empty() {
            *value = field_value(&marking.replace(value.as_bytes(), &findings, Lengths::Free));
        }
    }
    for name in named {
        fields.remove(name);
    }
}

/// Where one field stands in the text of all.
struct Place {
    name: Range<usize>,
    value: Range<usize>,
}

fn lined_up(fields: &HeaderMap) -> (Zeroizing<Vec<u8>>, Vec<Place>) {
    let length = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 2;
    let mut text = Zeroizing::new(Vec::with_capacity(fields.iter().map(length).sum()));
    let mut line = |part: &[u8]| {
        let start = text.len();
        text.extend_from_slice(part);
        text.push(b'\n');
        start..start + part.len()
    };
    // Names by themselves, so that values stand next to each other.
    let names: Vec<_> = fields.iter().map(|(name, _)| line(name.as_str().as_bytes())).collect();
    let values = fields.iter().map(|(_, value)| line(value.as_bytes()));
    let places = names.into_iter().zip(values).map(|(name, value)| Place { name, value });
    let places = places.collect();
    (text, places)
}

fn meet(one: &Range<usize>, other: &Range<usize>) -> Option<Range<usize>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

/// A placeholder is visible ASCII, so this fails only if its surroundings were not fit for a header before.
fn field_value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).unwrap_or(HeaderValue::from_static(""))
}
