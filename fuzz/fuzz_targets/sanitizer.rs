//! What programs print: no text panics, and no value comes out as it stands or percent-escaped, whatever stands around
//! it. Source: reference/nl.md, 13.2.
#![no_main]

use keyless_rewrite::{MIN_SANITIZED, Sanitizer, redact};
use libfuzzer_sys::fuzz_target;

/// In no value here, so that nothing arises from what is beside it.
const MARKER: char = '\u{1}';

fuzz_target!(|input: (&[u8], u16, &[u8])| {
    let (value, cut, around) = input;
    let value = value.trim_ascii();
    if value.len() < MIN_SANITIZED || value.contains(&(MARKER as u8)) {
        return;
    }
    let sanitizer = Sanitizer::new([value]);
    let escaped: String = value.iter().map(|byte| format!("%{byte:02X}")).collect();
    for form in [value, escaped.as_bytes()] {
        let (before, after) = around.split_at(usize::from(cut).min(around.len()));
        let text = [before, form, after].concat();
        let findings = sanitizer.find(&text);
        let mut end = 0;
        for finding in &findings {
            assert!(end <= finding.range.start && finding.range.start < finding.range.end);
            end = finding.range.end;
        }
        assert!(end <= text.len());
        let told = redact(&text, &findings, |_| MARKER.to_string());
        let comes_out = told.windows(form.len()).any(|window| window == form);
        assert!(!comes_out, "{}", text.escape_ascii());
    }
});
