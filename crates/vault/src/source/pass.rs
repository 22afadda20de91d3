//! The source `pass`: the standard Unix password manager, over GnuPG.
//!
//! The first line of an entry is its value; `NAME#field` is what follows `field:` on a later line,
//! and `NAME#*` the whole entry. Writing puts the first line and keeps the others.

use std::path::{Path, PathBuf};

use keyless_core::{SecretPath, SecretValue};
use tokio::task::spawn_blocking;
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, Held, SourceFault, State},
    folder::files_below,
    program::{Program, Ran},
    supply::Supply,
};
use crate::router::{SourceType, optional};

/// One password store.
pub(crate) struct PassSource {
    program: Program,
    /// Put before every path.
    folder: String,
}

impl PassSource {
    pub(crate) fn new(settings: &Table) -> Result<Self, String> {
        let folder = optional(settings, "folder")?.unwrap_or_default();
        Ok(Self { program: Program::of(settings, SourceType::Pass)?, folder })
    }

    /// Where the entries lie, as `pass` finds it itself.
    fn store(&self) -> Option<PathBuf> {
        let set = self.program.granted("PASSWORD_STORE_DIR").map(PathBuf::from);
        let home = || self.program.home().map(|home| home.join(".password-store"));
        set.or_else(home)
    }

    /// Whether there is no entry of that name. For a folder `pass` prints what is in it, and is content.
    async fn lacks(&self, name: &str) -> bool {
        let Some(store) = self.store() else { return false };
        let mut entry = store.clone().into_os_string();
        entry.push(format!("/{name}.gpg"));
        // Where there is no store, the program is another one with its entries elsewhere.
        let looked = spawn_blocking(move || store.is_dir() && !Path::new(&entry).is_file());
        looked.await.expect("looking at a file does not panic")
    }

    async fn show(
        &self,
        name: &str,
        with: &Supply,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, SourceFault> {
        let ran = self.program.run(&["show", "--", name], None, &[], with).await?;
        if ran.status.success() {
            return Ok((!self.lacks(name).await).then_some(ran.output));
        }
        if ran.complains_of(&["is not in the password store"]) {
            return Ok(None);
        }
        Err(fault(&ran))
    }
}

impl Backend for PassSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(Capabilities::LIST).and(Capabilities::WRITE)
    }

    fn reference(&self, path: &SecretPath, _rest: &str, route: Option<&Table>) -> String {
        let folder = route.and_then(|route| route.get("folder")?.as_str()).unwrap_or(&self.folder);
        if folder.is_empty() {
            path.to_string()
        } else {
            format!("{}/{path}", folder.trim_end_matches('/'))
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.program.files(&[".gnupg", ".password-store"], &[])
    }

    fn check_here(&self) -> Result<(), SourceFault> {
        self.program.check()
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            match self.program.run(&["ls"], None, &[], with).await {
                Ok(ran) if ran.status.success() => State::Available,
                Ok(_) => State::NeedsCredential,
                Err(fault) => fault.state,
            }
        })
    }

    fn list<'a>(&'a self, _: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        let (store, below) = (self.store(), self.folder.clone());
        Box::pin(async move {
            let gone = || SourceFault::new(State::NeedsCredential, "there is no password store");
            let store = store.ok_or_else(gone)?;
            let folder = store.join(below.trim_matches('/'));
            // The names of the files are those of the entries; nothing is decrypted.
            let found = spawn_blocking(move || files_below(&folder, &store, gone)).await;
            let files = found.expect("reading a folder does not panic")?;
            let entries = files.iter().filter_map(|file| file.strip_suffix(".gpg"));
            Ok(entries.map(|entry| Held { reference: entry.to_owned(), name: None }).collect())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let (name, field) = split(reference);
            let Some(entry) = self.show(name, with).await? else { return Ok(None) };
            let bytes = pick(&entry, field).map(|bytes| Zeroizing::new(bytes.to_vec()));
            Ok(bytes.map(|bytes| Fetched { bytes, lease: None }))
        })
    }

    fn put<'a>(
        &'a self,
        reference: &'a str,
        value: &'a SecretValue,
        with: &'a Supply,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(async move {
            let (name, field) = split(reference);
            if field.is_some() {
                let words = "only the first line of an entry can be written";
                return Err(SourceFault::new(State::Available, words));
            }
            let old = self.show(name, with).await?;
            let rest = old.as_deref().and_then(|old| {
                let end = old.iter().position(|byte| *byte == b'\n')?;
                Some(&old[end + 1..])
            });
            let value = value.expose_to_its_source();
            let size = value.len() + 1 + rest.map_or(0, <[u8]>::len);
            let mut entry = Zeroizing::new(Vec::with_capacity(size));
            entry.extend_from_slice(value);
            entry.push(b'\n');
            entry.extend_from_slice(rest.unwrap_or_default());
            let insert = ["insert", "--multiline", "--force", "--", name];
            let ran = self.program.run(&insert, Some(&entry), &[], with).await?;
            if ran.status.success() { Ok(()) } else { Err(fault(&ran)) }
        })
    }
}

fn split(reference: &str) -> (&str, Option<&str>) {
    match reference.split_once('#') {
        None => (reference, None),
        Some((name, field)) => (name, Some(field)),
    }
}

/// What `field` means of an entry; one newline at its end is not part of it.
fn pick<'a>(entry: &'a [u8], field: Option<&str>) -> Option<&'a [u8]> {
    let mut lines = entry.split(|byte| *byte == b'\n');
    match field {
        None => lines.next(),
        Some("*") => Some(entry.strip_suffix(b"\n").unwrap_or(entry)),
        Some(field) => lines.skip(1).find_map(|line| {
            let rest = line.strip_prefix(field.as_bytes())?.strip_prefix(b":")?;
            Some(rest.trim_ascii())
        }),
    }
}

fn fault(ran: &Ran) -> SourceFault {
    if ran.complains_of(&["pinentry", "no secret key", "decryption failed"]) {
        return SourceFault::new(State::Locked, "GnuPG did not decrypt the entry");
    }
    SourceFault { state: State::Unavailable, words: ran.ending() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_value_and_fields() {
        let entry = b"sesame\nuser: ada\nurl:https://a.test\n";
        let field = |field| pick(entry, field).map(<[u8]>::to_vec);
        assert_eq!(field(None).unwrap(), b"sesame");
        assert_eq!(field(Some("user")).unwrap(), b"ada");
        assert_eq!(field(Some("url")).unwrap(), b"https://a.test");
        assert_eq!(field(Some("*")).unwrap(), &entry[..entry.len() - 1]);
        assert_eq!(field(Some("none")), None);
        assert_eq!(pick(b"only", None).unwrap(), b"only");
    }
}
