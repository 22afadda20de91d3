//! Command lines: no text panics, every place that is told lies on the text's characters.
#![no_main]

use keyless_core::shell;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(script) = shell::lex(text) else { return };
    for command in &script.commands {
        assert!(text.get(command.span.clone()).is_some());
        for word in command.assignments.iter().chain(&command.words) {
            assert!(text.get(word.span.clone()).is_some());
        }
        for body in command.redirections.iter().filter_map(|to| to.body.clone()) {
            assert!(text.get(body).is_some());
        }
    }
    for scope in &script.scopes {
        assert!(text.get(scope.range.clone()).is_some());
    }
    for (at, _) in text.char_indices() {
        let _ = script.context_at(at);
    }
});
