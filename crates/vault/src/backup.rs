//! A copy of the vault's secrets for another place: an age file, encrypted to keys of its owner.
//!
//! What is in it says `backup/document.rs`. Any age program opens it with the right key, so that a copy outlives
//! Keyless. X25519 keys alone: a passphrase is what already opens the store. Source: <https://age-encryption.org/v1>

mod document;

use std::io::{self, Read, Write};

use age::{
    Decryptor, Encryptor,
    armor::ArmoredReader,
    x25519::{Identity, Recipient},
};
use keyless_core::{Code, Error, SafeText};
use zeroize::Zeroizing;

pub(crate) use self::document::{CopiedSecret, CopiedVersion, Document, Opened};

/// The largest copy that is read, in bytes.
pub const MAX_BACKUP_BYTES: usize = 256 << 20;

/// The keys that a copy is encrypted to: `age1…`.
#[derive(Debug)]
pub struct BackupRecipients(Vec<Recipient>);

/// The keys that open a copy: `AGE-SECRET-KEY-1…`. No `Debug` that shows them.
pub struct BackupIdentities(Vec<Identity>);

/// A copy that was opened and found whole, before it is taken in.
pub struct Backup(pub(crate) Document<Zeroizing<Vec<u8>>>);

impl BackupRecipients {
    /// Reads keys, one or several. [`Code::Usage`] names the one that is none.
    pub fn parse<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let parsed = keys
            .into_iter()
            .map(|key| key.parse().map_err(|_| Error::with(Code::Usage, no_recipient(key))));
        let all: Vec<Recipient> = parsed.collect::<Result<_, _>>()?;
        if all.is_empty() {
            let words = SafeText::words("a copy needs a recipient: --to age1…");
            return Err(Error::with(Code::Usage, words));
        }
        Ok(Self(all))
    }

    /// Encrypts `document`; what is in the clear is never whole in memory.
    pub(crate) fn encrypt(&self, document: &Document<Opened>) -> Result<Vec<u8>, Error> {
        let keys = self.0.iter().map(|key| key as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(keys).map_err(|_| Code::Internal)?;
        let mut encrypted = Vec::new();
        let written = encryptor.wrap_output(&mut encrypted).and_then(|mut writer| {
            serde_json::to_writer(&mut writer, document)?;
            writer.flush()?;
            writer.finish().map(drop)
        });
        written.map_err(|_| Error::from(Code::Internal)).map(|()| encrypted)
    }
}

impl BackupIdentities {
    /// Reads an identity file as `age-keygen` writes it: a key a line, and comments.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lines = text.lines().map(str::trim);
        let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let all: Vec<Identity> =
            keys.map(|key| key.parse().map_err(|_| no_identity())).collect::<Result<_, Error>>()?;
        if all.is_empty() { Err(no_identity()) } else { Ok(Self(all)) }
    }
}

impl Backup {
    /// Opens a copy, binary or armored. [`Code::BackupUnusable`] says why it can't be.
    pub fn decrypt(encrypted: &[u8], identities: &BackupIdentities) -> Result<Self, Error> {
        if encrypted.len() > MAX_BACKUP_BYTES {
            return Err(unusable("it is larger than 256 MiB"));
        }
        let decryptor = Decryptor::new_buffered(ArmoredReader::new(encrypted));
        let decryptor = decryptor.map_err(|_| unusable("it is no age file"))?;
        let keys = identities.0.iter().map(|key| key as &dyn age::Identity);
        let mut reader =
            decryptor.decrypt(keys).map_err(|_| unusable("it is encrypted to other keys"))?;
        // Never reallocated: a buffer that is left behind is not wiped.
        let mut plain = Zeroizing::new(Vec::with_capacity(encrypted.len()));
        let read = Read::by_ref(&mut reader).take(encrypted.len() as u64).read_to_end(&mut plain);
        let whole = read.and_then(|_| match reader.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        });
        whole.map_err(|_| unusable("it is cut off or was changed"))?;
        Document::read(&plain).map(Self)
    }

    /// How many secrets are in it, removed ones included.
    pub fn len(&self) -> usize {
        self.0.secrets.len()
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        self.0.secrets.is_empty()
    }
}

/// Why a text is no recipient. A private key is not repeated.
fn no_recipient(key: &str) -> SafeText {
    if key.to_ascii_uppercase().contains("AGE-SECRET-KEY-") {
        return SafeText::words(
            "that is a private key, which stays with you: age-keygen -y FILE prints its recipient (age1…)",
        );
    }
    let words = SafeText::default().as_they_wrote(key);
    if key.starts_with("ssh-") {
        words.and(" is a key of SSH, which Keyless does not encrypt to; age-keygen makes one of age (age1…)")
    } else {
        words.and(" is no age recipient (age1…)")
    }
}

fn unusable(why: &'static str) -> Error {
    Error::with(Code::BackupUnusable, SafeText::words(why))
}

fn no_identity() -> Error {
    let words = "the identity file has a line that is no AGE-SECRET-KEY-1…, or no key at all";
    Error::with(Code::Usage, SafeText::words(words))
}
