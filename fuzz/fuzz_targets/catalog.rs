//! The fleet's catalog: no text panics or takes long, a refusal can be told, and a catalog that is taken
//! names no secret's variable twice and binds only to destinations that can be read again.
#![no_main]

use std::collections::HashSet;

use keyless_core::{Authority, Destination};
use keyless_vault::parse_catalog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let catalog = match parse_catalog(text) {
        Ok(catalog) => catalog,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut variables = HashSet::new();
    for entry in &catalog.entries {
        assert!(variables.insert(entry.env.to_string()), "{} twice", entry.env);
        assert!(!entry.rule.to.is_empty(), "{} goes nowhere", entry.path);
        for destination in &entry.rule.to {
            assert_eq!(Destination::parse(&destination.to_string()).as_ref(), Ok(destination));
        }
    }
    for authority in &catalog.internal {
        assert_eq!(Authority::parse(&authority.to_string()).as_ref(), Ok(authority));
    }
    assert_eq!(parse_catalog(text), Ok(catalog), "the same text is the same catalog");
});
