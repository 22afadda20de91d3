//! What the agent gets to see: outputs without values, in whatever form.
//!
//! Each stream is looked at by itself and both together, in the order in which they were written and
//! one after the other, since half a value may stand in each.

mod document;

use std::{borrow::Cow, collections::BTreeMap, mem, ops::Range, string::FromUtf8Error, sync::Arc};

use data_encoding::BASE64;
use keyless_core::{
    Code, Error,
    action::{Encoding, OutputEncoding},
    nl_message::Profile,
};
use keyless_rewrite::{Finding, MIN_SANITIZED, Sanitizer, merge_findings, redact};
use serde_json::Value;
use zeroize::Zeroizing;

use self::document::{Leaves, with_texts};
use crate::{
    captured::{Captured, Stream},
    ports::Known,
};

/// Values with fewer bytes are not looked for across the strings of a document.
const MIN_ACROSS: usize = 8;

/// How often a value was taken out of an output, in one encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
    /// The secret, as the agent wrote it.
    pub name: String,
    /// How it was written.
    pub encoding: Encoding,
    /// How often it was found.
    pub count: u64,
}

/// Whether a value is looked for in what comes back: one of under four bytes would be found in every text (NL-2.6.5).
pub fn is_looked_for(value: &[u8]) -> bool {
    value.len() >= MIN_SANITIZED
}

/// What is looked for; built once for a set of values.
pub(crate) struct Sought {
    sanitizer: Sanitizer,
    names: Vec<String>,
    /// Of the values, in bytes.
    lengths: Vec<usize>,
}

impl Sought {
    pub(crate) fn new(known: &[Known]) -> Self {
        let sanitizer = Sanitizer::new(known.iter().map(|known| known.value.as_slice()));
        let lengths = known.iter().map(|known| known.value.len()).collect();
        Self { sanitizer, lengths, names: known.iter().map(|known| known.name.clone()).collect() }
    }
}

/// Looks for values, and counts what it finds.
pub(crate) struct Cleaner {
    sought: Arc<Sought>,
    profile: Profile,
    found: BTreeMap<(usize, Encoding), u64>,
}

/// Both outputs as the agent may see them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Clean {
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

impl Clean {
    /// Both as a message can carry them: as text, or both in base64 where one is none.
    pub(crate) fn written(self) -> (String, String, Option<OutputEncoding>) {
        let Self { output, errors } = self;
        match (String::from_utf8(output), String::from_utf8(errors)) {
            (Ok(output), Ok(errors)) => (output, errors, None),
            (output, errors) => {
                let encoded = |text: Result<String, FromUtf8Error>| {
                    let bytes = text.map_or_else(FromUtf8Error::into_bytes, String::into_bytes);
                    BASE64.encode(&bytes)
                };
                (encoded(output), encoded(errors), Some(OutputEncoding::Base64))
            }
        }
    }
}

impl Cleaner {
    pub(crate) fn new(sought: Arc<Sought>, profile: Profile) -> Self {
        Self { sought, profile, found: BTreeMap::new() }
    }

    /// Cleans what a command has written.
    pub(crate) fn outputs(&mut self, captured: &Captured) -> Clean {
        let output = Lane::of(captured, Stream::Output);
        let errors = Lane::of(captured, Stream::Errors);
        let mut findings =
            [self.sought.sanitizer.find(&output.bytes), self.sought.sanitizer.find(&errors.bytes)];
        if !output.bytes.is_empty() && !errors.bytes.is_empty() {
            for finding in self.sought.sanitizer.find(&captured.joint) {
                findings[0].extend(output.part_of(&finding));
                findings[1].extend(errors.part_of(&finding));
            }
            self.find_across(&output.bytes, &errors.bytes, &mut findings);
        }
        let [of_output, of_errors] = findings;
        Clean {
            output: self.redacted_all(output.bytes, of_output),
            errors: self.redacted_all(errors.bytes, of_errors),
        }
    }

    /// What begins at the end of one text and ends at the beginning of the other.
    fn find_across(&self, first: &[u8], second: &[u8], findings: &mut [Vec<Finding>; 2]) {
        const NEAR: usize = 64 << 10;
        for (first, second, order) in [(first, second, [0, 1]), (second, first, [1, 0])] {
            let from = first.len().saturating_sub(NEAR);
            let seam = first.len() - from;
            let near = &second[..second.len().min(NEAR)];
            let both = Zeroizing::new([&first[from..], near].concat());
            for finding in self.sought.sanitizer.find(&both) {
                let Range { start, end } = finding.range.clone();
                if start < seam && end > seam {
                    let range = start + from..first.len();
                    findings[order[0]].push(Finding { range, ..finding.clone() });
                    findings[order[1]].push(Finding { range: 0..end - seam, ..finding });
                }
            }
        }
    }

    /// Cleans one text.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let findings = self.sought.sanitizer.find(text.as_bytes());
        let clean = self.redacted(text.as_bytes(), findings);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Cleans every string and number of a JSON value, the names of members too: each by itself, and all of them read one
    /// after the other, also along the columns of lists.
    pub(crate) fn json(&mut self, document: Value) -> Value {
        let leaves = Leaves::of(&document);
        let sanitizer = &self.sought.sanitizer;
        let mut findings: Vec<Vec<Finding>> =
            leaves.texts().map(|text| sanitizer.find(text.as_bytes())).collect();
        for reading in leaves.readings() {
            for finding in sanitizer.find(&reading.text) {
                // What is short stands in the seams of many texts.
                if self.sought.lengths[finding.value] < MIN_ACROSS {
                    continue;
                }
                for (leaf, range) in reading.parts(&finding.range) {
                    findings[leaf].push(Finding { range, ..finding.clone() });
                }
            }
        }
        let mut clean = leaves.texts().zip(findings).map(|(text, findings)| {
            let clean = self.redacted(text.as_bytes(), findings);
            String::from_utf8_lossy(&clean).into_owned()
        });
        with_texts(document, &mut clean)
    }

    /// What was taken out so far.
    pub(crate) fn redactions(&self) -> Vec<Redaction> {
        let redaction = |(&(index, encoding), &count): (&(usize, Encoding), &u64)| Redaction {
            name: self.sought.names[index].clone(),
            encoding,
            count,
        };
        self.found.iter().map(redaction).collect()
    }

    fn redacted<'t>(&mut self, text: &'t [u8], findings: Vec<Finding>) -> Cow<'t, [u8]> {
        let findings = merge_findings(findings);
        let (names, profile, found) = (&self.sought.names, self.profile, &mut self.found);
        redact(text, &findings, |finding| {
            let encoding = Encoding::from(finding.form);
            *found.entry((finding.value, encoding)).or_default() += 1;
            profile.marker(&names[finding.value], encoding)
        })
    }

    /// As [`Self::redacted`], but takes the text and gives it back where nothing was found in it.
    fn redacted_all(&mut self, mut text: Zeroizing<Vec<u8>>, findings: Vec<Finding>) -> Vec<u8> {
        if let Cow::Owned(clean) = self.redacted(&text, findings) {
            return clean;
        }
        mem::take(&mut text)
    }
}

/// Cleans on a thread for such work; an output that can't be cleaned is withheld.
pub(crate) async fn clean_outputs(
    mut cleaner: Cleaner,
    captured: Captured,
) -> Result<(Clean, Cleaner), Error> {
    let cleaning = tokio::task::spawn_blocking(move || {
        let clean = cleaner.outputs(&captured);
        (clean, cleaner)
    });
    cleaning.await.map_err(|_| Error::new(Code::SanitizeFailed))
}

/// One stream's bytes, and where each stretch of them stands among those of both.
struct Lane {
    bytes: Zeroizing<Vec<u8>>,
    /// Where a stretch begins here, where it begins there, and its length.
    stretches: Vec<(usize, usize, usize)>,
}

impl Lane {
    fn of(captured: &Captured, stream: Stream) -> Self {
        let own = captured.stretches.iter().filter(|(whose, _)| *whose == stream);
        let mut bytes = Zeroizing::new(Vec::with_capacity(own.map(|(_, length)| length).sum()));
        let (mut stretches, mut there) = (Vec::new(), 0);
        for (whose, length) in &captured.stretches {
            if *whose == stream {
                stretches.push((bytes.len(), there, *length));
                bytes.extend_from_slice(&captured.joint[there..there + length]);
            }
            there += length;
        }
        Self { bytes, stretches }
    }

    /// The parts of a finding in both that stand here; only stretches near it are looked at.
    fn part_of<'a>(&'a self, finding: &'a Finding) -> impl Iterator<Item = Finding> + 'a {
        let Range { start, end } = finding.range.clone();
        let first = self.stretches.partition_point(|&(_, there, length)| there + length <= start);
        let near = self.stretches[first..].iter().take_while(move |&&(_, there, _)| there < end);
        near.map(move |&(here, there, length)| {
            let (start, end) = (start.max(there), end.min(there + length));
            Finding { range: start - there + here..end - there + here, ..finding.clone() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[(Stream, &str)]) -> Captured {
        let mut captured = Captured::default();
        for (stream, text) in pieces {
            captured.joint.extend_from_slice(text.as_bytes());
            captured.stretches.push((*stream, text.len()));
        }
        captured
    }

    fn cleaner() -> Cleaner {
        let value = Zeroizing::new(b"hunter2-hunter2".to_vec());
        let sought = Sought::new(&[Known { name: "db/PASS".into(), value }]);
        Cleaner::new(Arc::new(sought), Profile::Seed)
    }

    #[test]
    fn markers_are_the_specs() {
        let text =
            "hunter2-hunter2 aHVudGVyMi1odW50ZXIy 68756e746572322d68756e74657232 hunter2%2Dhunter2";
        let mut cleaner = cleaner();
        assert_eq!(
            cleaner.text(text),
            "[REDACTED:db/PASS] [REDACTED:db/PASS:base64] [REDACTED:db/PASS:hex] [REDACTED:db/PASS:url]"
        );
        assert_eq!(cleaner.redactions().iter().map(|one| one.count).sum::<u64>(), 4);
    }

    #[test]
    fn halves_in_two_streams_are_found() {
        use Stream::{Errors, Output};
        for pieces in [
            vec![(Output, "x hunter2"), (Errors, "-hunter2 y")],
            vec![(Output, "x hun"), (Errors, "ter2-h"), (Output, "unter2 y")],
            vec![(Errors, "-hunter2 y"), (Output, "x hunter2")],
            vec![(Output, "x hunter2\n"), (Errors, "-hunter2\ny")],
        ] {
            let clean = cleaner().outputs(&captured(&pieces));
            let (output, errors, encoding) = clean.written();
            let both = format!("{output}{errors}");
            assert!(!both.contains("hunter2") && !both.contains("unter2"), "{both}");
            assert!(both.contains("[REDACTED:db/PASS]") && encoding.is_none());
        }
    }

    /// Looking at each of them for each finding would take longer than any action may.
    #[test]
    fn of_many_lines_in_turn_each_is_cleaned() {
        use Stream::{Errors, Output};
        let pieces = [(Output, "a hunter2-hunter2 b\n"), (Errors, "well\n")].repeat(50_000);
        let clean = cleaner().outputs(&captured(&pieces));
        assert!(clean.output == b"a [REDACTED:db/PASS] b\n".repeat(50_000));
        assert!(clean.errors == b"well\n".repeat(50_000));
    }

    #[test]
    fn what_is_no_text_is_written_in_base64_and_cleaned_before() {
        let mut captured = captured(&[(Stream::Output, "x hunter2-hunter2 ")]);
        captured.joint.push(0xff);
        captured.stretches.push((Stream::Output, 1));
        let (output, errors, encoding) = cleaner().outputs(&captured).written();
        assert_eq!((errors.as_str(), encoding), ("", Some(OutputEncoding::Base64)));
        assert_eq!(BASE64.decode(output.as_bytes()).unwrap(), b"x [REDACTED:db/PASS] \xff");
    }

    #[test]
    fn json_is_cleaned_to_its_names() {
        let value = serde_json::json!({"hunter2-hunter2": ["x hunter2-hunter2", 1, null]});
        let clean = cleaner().json(value);
        assert_eq!(
            clean,
            serde_json::json!({"[REDACTED:db/PASS]": ["x [REDACTED:db/PASS]", 1, null]})
        );
    }

    #[test]
    fn a_value_that_is_cut_over_a_document_is_found() {
        use serde_json::json;
        let letters: Vec<_> =
            "hunter2-hunter2".chars().map(|c| json!({ "n": 1, "c": c })).collect();
        for document in [
            json!(["hunter2-", "hunter2"]),
            json!({ "a": "hunter2-hu", "b": { "c": "nter2" } }),
            json!({ "hunter2-": "hunter2" }),
            json!([["hunter2-", 1, "x"], ["hunter2", 2, "y"]]),
            json!({ "rows": [{ "a": "of two", "z": "x hunter2-" }, { "a": "rows", "z": "hunter2 y" }] }),
            json!({ "rows": letters }),
            json!(["aHVudGVyM", "i1odW50ZXIy"]),
            json!(["hunter2-", { "skipped": null, "told": "hunter2" }, 7]),
        ] {
            let mut cleaner = cleaner();
            let clean = cleaner.json(document.clone());
            assert!(cleaner.redactions().iter().all(|one| one.name == "db/PASS"));
            let text = clean.to_string();
            assert!(text.contains("REDACTED") && !text.contains("unter2"), "{document}: {text}");
            assert_eq!(shape(&clean), shape(&document), "{text}");
        }
        // Nothing of what only looks alike.
        for document in [json!(["hunter2", 1, "-hunter2"]), json!({ "a": [1, 2.5, null, true] })] {
            assert_eq!(cleaner().json(document.clone()), document);
        }
    }

    /// A document without its texts.
    fn shape(document: &Value) -> Value {
        match document {
            Value::Array(items) => items.iter().map(shape).collect(),
            Value::Object(members) => members.values().map(shape).collect(),
            Value::Null | Value::Bool(_) => document.clone(),
            Value::String(_) | Value::Number(_) => Value::from("text"),
        }
    }

    proptest::proptest! {
        /// Wherever a value is cut, and whatever stands between its halves in other columns.
        #[test]
        fn no_half_of_a_value_stays_in_a_column(
            at in 4..11_usize,
            others in proptest::collection::vec("[a-z]{0,6}", 2),
        ) {
            let (head, tail) = "hunter2-hunter2".split_at(at);
            let rows: Vec<_> = [head, tail].iter().zip(&others)
                .map(|(half, other)| serde_json::json!({ "a": other, "half": half, "z": other }))
                .collect();
            let clean = cleaner().json(Value::Array(rows));
            for row in clean.as_array().unwrap() {
                proptest::prop_assert_eq!(row["half"].as_str(), Some("[REDACTED:db/PASS]"));
            }
        }
    }
}
