//! The guest's settings file: no text panics, and what is read is what its lines say.
#![no_main]

use keyless_init::read_settings_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(said) = read_settings_file(text) else { return };
    let written: String = said.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    assert_eq!(read_settings_file(&written).ok(), Some(said));
});
