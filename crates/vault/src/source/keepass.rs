//! The source `keepass`: a database of KeePass, version 3.1 or 4, read-only.
//!
//! A reference is `GROUP/…/TITLE#FIELD`, without the root group's name; the field is `Password` when
//! none is named. The source's credential is the master password; `keyfile` stands beside it or
//! alone. The file is read anew each time, and one field of it is decrypted.
//!
//! The crate `keepass` is not used: it refuses fields that do not stand side by side, as pykeepass
//! writes them, takes any memory and any time that a header asks for, panics at short fields, and
//! keeps every value in memory that nobody wipes. Source: <https://keepass.info/help/kb/kdbx.html>

mod bytes;
mod container;
mod document;
mod key;
mod stream;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use keyless_core::{SafeText, SecretValue};
use tokio::task::spawn_blocking;
use toml::Table;
use zeroize::Zeroizing;

use self::{
    container::{Container, Content},
    key::{Key, composite},
};
use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State, not_there},
    file,
    supply::Supply,
};
use crate::{
    plain_file::PlainFile,
    router::{optional, required},
};

/// The largest file, attachments included.
const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;
const DEFAULT_FIELD: &str = "Password";

/// One database.
pub(crate) struct KeePassSource(Arc<Database>);

struct Database {
    file: PathBuf,
    keyfile: Option<PathBuf>,
    /// Deriving takes a second, by the owner's wish; until the file is saved anew once is enough.
    derived: Mutex<Option<Derived>>,
}

/// A derived key, and what it was derived of.
struct Derived {
    of: Key,
    key: Key,
}

/// Why a database gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Ambiguous,
    Damaged,
    File(io::ErrorKind),
    Foreign,
    Key,
    Keyfile,
    KeyfileGone(io::ErrorKind),
    NoKey,
    Refers,
    Seed,
    TooLarge,
    TooMuchWork,
    Unsupported(&'static str),
}

/// Reads bytes as everything that a database, its keyfile and its document are read as; nothing is derived, since a
/// header may ask for seconds of it. For the fuzz target alone.
pub fn read_anything(bytes: &[u8]) {
    let nobodys = Key::default();
    if let Ok(container) = Container::parse(bytes) {
        let _ = container.derivation();
        if let Ok(content) = container.open(&nobodys) {
            let _ = document::check(&content);
        }
    }
    let _ = composite(None, Some(bytes));
    let Ok(Ok(content)) = std::str::from_utf8(bytes).map(Content::of_document) else { return };
    let Ok(names) = document::names(&content) else { return };
    // What is listed is what can be asked for: it is found, or told why not, and never two ways.
    for name in names.iter().take(16) {
        let once = document::find(&content, name, DEFAULT_FIELD);
        let again = document::find(&content, name, DEFAULT_FIELD);
        assert_eq!(
            once.map(|value| value.map(|v| v.to_vec())),
            again.map(|value| value.map(|v| v.to_vec()))
        );
    }
}

impl KeePassSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        if settings.contains_key("password") {
            return Err("a password does not stand in sources.toml: keep it as a secret and name it under [source_credentials]".to_owned());
        }
        let absolute = |name: &str, path: String| {
            let path = PathBuf::from(path);
            if path.is_absolute() { Ok(path) } else { Err(format!("{name} is not absolute")) }
        };
        let file = absolute("file", required(settings, "file")?)?;
        let keyfile = optional(settings, "keyfile")?;
        let keyfile = keyfile.map(|path| absolute("keyfile", path)).transpose()?;
        Ok(Self(Arc::new(Database { file, keyfile, derived: Mutex::default() })))
    }

    /// Opens the database, for as long as its owner chose, and gives what `look` finds in it.
    async fn open<T: Send + 'static>(
        &self,
        credential: Option<&SecretValue>,
        look: impl FnOnce(&Content) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, SourceFault> {
        let database = Arc::clone(&self.0);
        let password = credential.map(|it| Zeroizing::new(it.expose_to_its_source().to_vec()));
        let work = spawn_blocking(move || look(&database.open(password.as_deref())?));
        work.await.expect("reading a database does not panic").map_err(Into::into)
    }
}

impl Backend for KeePassSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(Capabilities::LIST)
    }

    fn check_here(&self) -> Result<(), SourceFault> {
        let gone = self.files().into_iter().find(|file| !file.is_file());
        gone.map_or(Ok(()), |file| Err(not_there("file", &file)))
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            match self.open(with.credential(), document::check).await {
                Ok(()) => State::Available,
                Err(fault) => fault.state,
            }
        })
    }

    fn list<'a>(&'a self, with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let names = self.open(with.credential(), document::names).await?;
            Ok(names.into_iter().map(|reference| Held { reference, name: None }).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let (entry, field) = reference.rsplit_once('#').unwrap_or((reference, DEFAULT_FIELD));
            let (entry, field) = (entry.to_owned(), field.to_owned());
            let found =
                self.open(with.credential(), move |inside| document::find(inside, &entry, &field));
            Ok(found.await?.map(|bytes| Fetched { bytes, lease: None }))
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        self.0.keyfile.iter().chain([&self.0.file]).cloned().collect()
    }

    fn forget(&self) {
        *self.0.derived.lock().expect("nothing panics under it") = None;
    }
}

impl Database {
    fn open(&self, password: Option<&Vec<u8>>) -> Result<Content, Fault> {
        let bytes = read(&self.file).map_err(Fault::File)?;
        let keyfile = self.keyfile.as_deref().map(read).transpose().map_err(Fault::KeyfileGone)?;
        if password.is_none() && keyfile.is_none() {
            return Err(Fault::NoKey);
        }
        let container = Container::parse(&bytes)?;
        let password = password.map(Vec::as_slice);
        let composite = composite(password, keyfile.as_deref().map(Vec::as_slice))?;
        container.open(&self.derive(&container, &composite)?)
    }

    fn derive(&self, container: &Container<'_>, composite: &Key) -> Result<Key, Fault> {
        let of = container.under(composite);
        // Held while it is derived: of two who need it, one derives it.
        let mut derived = self.derived.lock().expect("nothing panics under it");
        if let Some(derived) = &*derived
            && derived.of == of
        {
            return Ok(derived.key.clone());
        }
        let key = container.derivation()?.derive(composite)?;
        *derived = Some(Derived { of, key: key.clone() });
        Ok(key)
    }
}

/// Reads a file whole. Blocks.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, io::ErrorKind> {
    let read = PlainFile::open(path).and_then(|file| file.bytes(MAX_FILE_BYTES));
    read.map_err(|error| error.kind())
}

impl From<Fault> for SourceFault {
    fn from(fault: Fault) -> Self {
        let unread = |what: &'static str, kind: io::ErrorKind| {
            let gone = kind == io::ErrorKind::NotFound;
            let state = if gone { State::NotInstalled } else { State::Unavailable };
            let words = SafeText::words(what).and(" can't be read: ").and(file::why(kind));
            Self { state, words }
        };
        let (state, words) = match fault {
            Fault::File(kind) => return unread("the database", kind),
            Fault::KeyfileGone(kind) => return unread("the keyfile", kind),
            Fault::Unsupported(what) => {
                let words = SafeText::words("Keyless does not know ").and(what);
                return Self { state: State::Unavailable, words };
            }
            Fault::Key => (State::Locked, "the password, or the keyfile, is not the database's"),
            Fault::NoKey => (
                State::NeedsCredential,
                "it has neither password nor keyfile; see [source_credentials]",
            ),
            Fault::Ambiguous => (State::Available, "several entries go by this name"),
            Fault::Damaged => {
                (State::Unavailable, "the database is damaged, or was not written to its end")
            }
            Fault::Foreign => {
                (State::Unavailable, "the file is no KeePass database of version 3.1 or 4")
            }
            Fault::Keyfile => {
                (State::Unavailable, "the keyfile is damaged, or of a version that nobody knows")
            }
            Fault::Refers => {
                (State::Available, "the field refers to another entry's; name that one")
            }
            Fault::Seed => {
                (State::Available, "the field makes one-time passwords; its seed is not given out")
            }
            Fault::TooLarge => (State::Unavailable, "the database is larger than 128 MiB"),
            Fault::TooMuchWork => (
                State::Unavailable,
                "its key takes over 1 GiB or minutes to derive; save it with less",
            ),
        };
        Self::new(state, words)
    }
}

#[cfg(test)]
mod tests;
