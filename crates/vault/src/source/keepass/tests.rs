//! Files of another program, whole and damaged; `cli/tests/it/keepass.rs` has the rest.

use proptest::prelude::*;

use super::{key::Derivation, *};

const V3: &[u8] = include_bytes!("../../../tests/vectors/keepass-3.kdbx");
const V4: &[u8] = include_bytes!("../../../tests/vectors/keepass-4.kdbx");

fn read(file: &[u8], entry: &str, field: &str) -> Result<Option<String>, Fault> {
    let container = Container::parse(file)?;
    let derived = container.derivation()?.derive(&composite(Some(b"correct horse"), None)?)?;
    let found = document::find(&container.open(&derived)?, entry, field)?;
    Ok(found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn value(file: &[u8]) -> Result<Option<String>, Fault> {
    read(file, "team/api/token", "Password")
}

#[test]
fn files_of_another_program_open() {
    for file in [V3, V4] {
        assert_eq!(value(file), Ok(Some("the right value".to_owned())));
        let field = |name: &str| read(file, "team/api/token", name);
        assert_eq!(field("deploy key"), Ok(Some("the right value-field".to_owned())));
        assert_eq!(field("username"), Ok(Some("ada.lovelace".to_owned())));
        assert_eq!(field("notes"), Ok(Some("Zwölf\n& mehr".to_owned())));
        assert_eq!(field("Deploy Key"), Ok(None));
        assert_eq!(field("OTP"), Err(Fault::Seed));
        assert_eq!(read(file, "team/api/twice", "Password"), Err(Fault::Ambiguous));
        assert_eq!(read(file, "team/api/refers", "Password"), Err(Fault::Refers));
        assert_eq!(read(file, "team/api/gone", "Password"), Ok(None));
    }
}

#[test]
fn damage_at_any_place_gives_no_other_value() {
    for file in [V3, V4] {
        for at in 0..file.len() {
            let mut flipped = file.to_vec();
            flipped[at] ^= 1 << (at % 8);
            // More rounds than there were are refused, or take a while; what comes of them is no key.
            if let Ok(Derivation::Aes { rounds, .. }) =
                Container::parse(&flipped).and_then(|container| container.derivation())
                && rounds > 1000
            {
                continue;
            }
            assert!(value(&flipped).is_err(), "byte {at} of {}", file.len());
        }
        for length in 0..file.len() {
            assert!(value(&file[..length]).is_err(), "{length} of {}", file.len());
        }
    }
}

#[test]
fn a_header_may_not_ask_for_everything() {
    let rounds = |rounds| Derivation::aes(&[0; 32], rounds).map(drop);
    assert_eq!(rounds(60_000_000), Ok(()));
    assert_eq!(rounds(u64::MAX), Err(Fault::TooMuchWork));
    assert_eq!(Derivation::aes(&[0; 31], 1).map(drop), Err(Fault::Damaged));
}

proptest! {
    #[test]
    fn no_bytes_panic(version in 3_u16..5, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = [&V3[..10], &version.to_le_bytes(), &bytes].concat();
        if let Ok(container) = Container::parse(&file) {
            let _ = container.derivation();
            let _ = container.open(&Key::default());
        }
        let _ = composite(None, Some(&bytes));
    }
}
