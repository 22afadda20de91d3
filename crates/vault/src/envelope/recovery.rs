//! From 24 written-down words to a wrapping key: BIP39's seed, then HKDF-SHA256.
//!
//! The words carry 256 random bits, so nothing has to be stretched. They are shown once when the
//! vault is made and stored nowhere.

use std::fmt;

use bip39::{Language, Mnemonic};
use keyless_core::{Code, Error, SafeText};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{draw_salt, read_salt};
use crate::{
    key::{self, Subkey},
    random,
};

const INFO: &str = "keyless/v1/envelope/recovery";
const WORDS: usize = 24;

/// The 24 words; wiped on drop, never printed by accident.
pub struct RecoveryPhrase(Mnemonic);

/// What stands in the envelope.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    salt: String,
}

impl RecoveryPhrase {
    /// A fresh phrase.
    pub(crate) fn generate() -> Result<Self, Error> {
        let entropy = Zeroizing::new(random::bytes::<32>()?);
        let mnemonic = Mnemonic::from_entropy_in(Language::English, &*entropy)
            .map_err(|_| Error::from(Code::Internal))?;
        Ok(Self(mnemonic))
    }

    /// Reads the words as a person types them, in any case and with any white space.
    /// [`Code::WrongRecoveryPhrase`] when they are not a phrase, which says nothing of any vault. The error
    /// names words by their number alone.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = Zeroizing::new(text.to_lowercase());
        match Mnemonic::parse_in(Language::English, text.as_str()) {
            Ok(mnemonic) if mnemonic.word_count() == WORDS => Ok(Self(mnemonic)),
            _ => Err(Error::with(Code::WrongRecoveryPhrase, why_not(&text))),
        }
    }

    /// The words joined by spaces, to show them to the operator once.
    pub fn expose_to_operator(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.words().collect::<Vec<_>>().join(" "))
    }

    pub(super) fn wrapping_key(&self, parameters: &Parameters) -> Result<Subkey, Error> {
        let salt = read_salt(&parameters.salt)?;
        let seed = Zeroizing::new(self.0.to_seed_normalized(""));
        Ok(key::derive(Some(&salt), &*seed, INFO))
    }
}

/// Why `text` is no phrase: its count, then the words that no list has, then that they don't fit together.
fn why_not(text: &str) -> SafeText {
    let count = text.split_whitespace().count();
    if count != WORDS {
        return SafeText::words("it has 24 words; as typed there are ").and(count);
    }
    let unknown = |(at, word)| Language::English.find_word(word).is_none().then_some(at + 1);
    let mut numbers = text.split_whitespace().enumerate().filter_map(unknown);
    let Some(first) = numbers.next() else {
        let words = "each word is in the list, but they do not fit together: one was mistyped as another, or two were swapped";
        return SafeText::words(words);
    };
    let told = SafeText::words("not in the list of words: word ").and(first);
    numbers.fold(told, |told, number| told.and(", word ").and(number))
}

impl fmt::Debug for RecoveryPhrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryPhrase")
    }
}

impl Parameters {
    pub(super) fn draw() -> Result<Self, Error> {
        Ok(Self { salt: draw_salt()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_being_written_down() {
        let phrase = RecoveryPhrase::generate().unwrap();
        let shown = phrase.expose_to_operator();
        assert_eq!(shown.split(' ').count(), WORDS);
        let typed = format!("  {}\n", shown.replace(' ', "  ").to_uppercase());
        let read = RecoveryPhrase::parse(&typed).unwrap();
        assert_eq!(*read.expose_to_operator(), *shown);
    }

    #[test]
    fn other_words_are_refused() {
        let twelve = "abandon ".repeat(11) + "about";
        let count = "it has 24 words; as typed there are ";
        for (text, why) in [
            (String::new(), format!("{count}0")),
            ("one two three".to_owned(), format!("{count}3")),
            (twelve, format!("{count}12")),
            ("abandon ".repeat(25), format!("{count}25")),
            (
                "abandon ".repeat(6) + "abandn " + &"abandon ".repeat(16) + "artt",
                "not in the list of words: word 7, word 24".to_owned(),
            ),
            (
                "abandon ".repeat(24),
                "each word is in the list, but they do not fit together: one was mistyped as another, or two were swapped"
                    .to_owned(),
            ),
        ] {
            let error = RecoveryPhrase::parse(&text).unwrap_err();
            assert_eq!((error.code(), error.detail().as_str()), (Code::WrongRecoveryPhrase, &*why));
        }
    }

    /// Trezor's vector for entropy of zeros without a passphrase:
    /// <https://github.com/trezor/python-mnemonic/blob/master/vectors.json> uses the passphrase
    /// TREZOR, so the word list and checksum are what is compared here.
    #[test]
    fn zeros_are_the_known_words() {
        let known = "abandon ".repeat(23) + "art";
        let phrase = RecoveryPhrase::parse(&known).unwrap();
        assert_eq!(*phrase.expose_to_operator(), known);
    }
}
