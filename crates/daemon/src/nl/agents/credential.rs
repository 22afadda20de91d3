//! An agent's credential: drawn, hashed slowly, compared.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use data_encoding::BASE64_NOPAD;
use keyless_core::{Code, Error};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::broker::fill_random;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Characters after the prefix: 43 of 62 are 256 bits.
const CHARACTERS: usize = 43;
/// OWASP's least for Argon2id. The credential has 256 bits, so that nothing is to be guessed.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const SALT: usize = 16;
const HASH: usize = 32;
/// Memory that a hash has used and the next one uses again. Given back to the allocator each time, it stayed with one thread's
/// after another.
static SPARE: Mutex<Vec<Vec<Block>>> = Mutex::new(Vec::new());
/// How much of it is kept: for as many as hash at the same time.
const MAX_SPARE: usize = super::HASHES_AT_ONCE;

/// A new credential, `nlk_…`. Without randomness there is none.
pub(super) fn draw() -> Result<Zeroizing<String>, Error> {
    let mut text = Zeroizing::new(String::from("nlk_"));
    text.reserve_exact(CHARACTERS);
    let mut drawn = Zeroizing::new([0_u8; 64]);
    while text.len() < 4 + CHARACTERS {
        fill_random(&mut *drawn)?;
        // 248 is four times 62: above it some characters would be likelier than others.
        let fair = drawn.iter().filter(|byte| **byte < 248);
        for byte in fair.take(4 + CHARACTERS - text.len()) {
            text.push(char::from(ALPHABET[usize::from(byte % 62)]));
        }
    }
    Ok(text)
}

/// The hash of a credential with a fresh salt, in the form of PHC strings.
pub(super) fn hash(credential: &str) -> Result<String, Error> {
    let mut salt = [0_u8; SALT];
    fill_random(&mut salt)?;
    let hash = digest(credential, &salt)?;
    let (salt, hash) = (BASE64_NOPAD.encode(&salt), BASE64_NOPAD.encode(&*hash));
    Ok(format!("{}${salt}${hash}", head()))
}

/// Whether a credential has this hash. A hash of another form fits nothing.
pub(super) fn fits(credential: &str, hash: &str) -> Result<bool, Error> {
    let rest = hash.strip_prefix(&head()).and_then(|rest| rest.strip_prefix('$'));
    let Some((salt, wanted)) = rest.and_then(|rest| rest.split_once('$')) else {
        return Ok(false);
    };
    let decoded = (BASE64_NOPAD.decode(salt.as_bytes()), BASE64_NOPAD.decode(wanted.as_bytes()));
    let (Ok(salt), Ok(wanted)) = decoded else { return Ok(false) };
    let hash = digest(credential, &salt)?;
    // What is compared is a slow hash: how long it takes tells nothing of use.
    Ok(*hash == wanted[..])
}

fn head() -> String {
    format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1")
}

fn digest(credential: &str, salt: &[u8]) -> Result<Zeroizing<[u8; HASH]>, Error> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, Some(HASH)).map_err(|_| Code::Internal)?;
    let mut hash = Zeroizing::new([0; HASH]);
    let mut memory = SPARE.lock().pop().unwrap_or_default();
    memory.resize(params.block_count(), Block::default());
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(credential.as_bytes(), salt, &mut *hash, &mut memory)
        .map_err(|_| Code::Internal)?;
    let mut spare = SPARE.lock();
    if spare.len() < MAX_SPARE {
        spare.push(memory);
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_fits_its_own_hash_alone() {
        let credential = draw().unwrap();
        assert!(keyless_core::agent::is_credential(&credential));
        assert_ne!(credential, draw().unwrap());
        let stored = hash(&credential).unwrap();
        assert!(fits(&credential, &stored).unwrap());
        assert!(!fits("nlk_wrong", &stored).unwrap());
        assert!(!stored.contains(&credential[4..]));
        for odd in ["", "$argon2id$v=19$m=1,t=1,p=1$a$b", "plain"] {
            assert!(!fits(&credential, odd).unwrap(), "{odd}");
        }
    }
}
