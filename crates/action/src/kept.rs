//! Files that a template made, kept in memory for the agent's later actions.
//!
//! No file ever lies on a disk or in a directory that the agent's side could enter: a rendered file
//! stands in the jail of each later action whose command names it, and nowhere else.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{Code, Destination, Error, Handle, SafeText, SecretPath, grant::PermissionRef};
use parking_lot::Mutex;

use crate::ports::{Edition, Exchanged, File, Known};

/// Where rendered and temporary files are, in the jail of an action. The spec's own example.
pub const SECURE_DIRECTORY: &str = "/tmp/nl-secure";
/// The mode of a rendered file.
pub(crate) const RENDERED_MODE: u32 = 0o600;
/// The most that one agent's files may hold together, in bytes.
pub(crate) const ROOM: usize = 16 << 20;

/// A rendered file that a command names: what is in it is used by that command as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where it stands in the jail.
    pub path: PathBuf,
    /// The action that rendered it, `act_…`: a file of the same path that another one made is not the same.
    pub made_by: String,
    /// The secrets in it, as its template wrote them.
    pub references: Vec<(Handle, SecretPath)>,
}

/// One rendered file.
#[derive(Clone)]
pub(crate) struct Rendered {
    /// `act_…`.
    pub(crate) made_by: String,
    pub(crate) references: Vec<(Handle, SecretPath)>,
    pub(crate) file: File,
    pub(crate) known: Vec<Known>,
    pub(crate) placeholders: Vec<Exchanged>,
    pub(crate) secrets: Vec<(SecretPath, Edition)>,
    /// The hosts that a value in it may reach, whoever uses it later.
    pub(crate) hosts: Vec<Destination>,
    /// What permitted it.
    pub(crate) permissions: Vec<PermissionRef>,
    pub(crate) until: Timestamp,
}

/// The files of one agent.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Vec<Rendered>>);

impl Shelf {
    /// Keeps a file; one of the same path goes.
    pub(crate) fn keep(&self, rendered: Rendered) -> Result<(), Error> {
        let mut files = self.0.lock();
        let (path, size) = (&rendered.file.path, rendered.file.content.len());
        has_room(&files, path, size)?;
        let now = Timestamp::now();
        files.retain(|file| file.until > now && file.file.path != *path);
        files.push(rendered);
        Ok(())
    }

    /// Whether a file of at least so many bytes may be kept there.
    pub(crate) fn has_room(&self, path: &Path, size: usize) -> Result<(), Error> {
        has_room(&self.0.lock(), path, size)
    }

    /// The files that a command names.
    pub(crate) fn named_in(&self, command: &str) -> Vec<Rendered> {
        let mut files = self.0.lock();
        let now = Timestamp::now();
        files.retain(|file| file.until > now);
        let is_named = |file: &&Rendered| command.contains(&*file.file.path.to_string_lossy());
        files.iter().filter(is_named).cloned().collect()
    }

    /// The secrets of which something is held.
    pub(crate) fn held(&self) -> Vec<(SecretPath, Edition)> {
        let files = self.0.lock();
        let held: BTreeSet<_> = files.iter().flat_map(|file| &file.secrets).cloned().collect();
        held.into_iter().collect()
    }

    /// Drops what holds anything of this secret.
    pub(crate) fn forget(&self, path: &SecretPath) {
        self.0.lock().retain(|file| file.secrets.iter().all(|(of, _)| of != path));
    }

    /// The permissions under which something was rendered.
    pub(crate) fn permissions(&self) -> BTreeSet<PermissionRef> {
        self.0.lock().iter().flat_map(|file| &file.permissions).cloned().collect()
    }

    /// Drops what this permission was needed for.
    pub(crate) fn withdraw(&self, at: &PermissionRef) {
        self.0.lock().retain(|file| !file.permissions.contains(at));
    }
}

impl Rendered {
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            path: self.file.path.clone(),
            made_by: self.made_by.clone(),
            references: self.references.clone(),
        }
    }
}

/// The path of an output file: below [`SECURE_DIRECTORY`], and nothing a shell would take for more.
pub(crate) fn output_path(asked: Option<&str>, action_id: &str) -> Result<PathBuf, Error> {
    let Some(asked) = asked else { return Ok(Path::new(SECURE_DIRECTORY).join(action_id)) };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let path = Path::new(SECURE_DIRECTORY).join(asked);
    let below = path.strip_prefix(SECURE_DIRECTORY).is_ok_and(|rest| {
        rest.components().count() > 0
            && rest.components().all(|part| matches!(part, Component::Normal(_)))
    });
    if below && asked.bytes().all(plain) && asked.len() < 256 && !asked.ends_with('/') {
        // As later commands name it: of two slashes, or a dot, they say nothing.
        Ok(path.components().collect())
    } else {
        let words = SafeText::words("an output path is a file below ").and(SECURE_DIRECTORY);
        Err(Error::with(Code::MessageMalformed, words.and(", which later actions see")))
    }
}

fn has_room(files: &[Rendered], path: &Path, size: usize) -> Result<(), Error> {
    let now = Timestamp::now();
    let stay = files.iter().filter(|file| file.until > now && file.file.path != path);
    let held: usize = stay.map(|file| file.file.content.len()).sum();
    if held + size > ROOM { Err(full()) } else { Ok(()) }
}

/// One file alone is more than there may be of all.
pub(crate) fn too_large() -> Error {
    Error::with(Code::OutputTooLarge, "rendered files hold 16 MiB at most".into())
}

pub(crate) fn full() -> Error {
    Error::with(Code::RenderedFull, "rendered files hold 16 MiB at most".into())
}

/// When a file that is made now goes.
pub(crate) fn until(life: std::time::Duration) -> Timestamp {
    let life = SignedDuration::try_from(life).unwrap_or(SignedDuration::from_mins(10));
    Timestamp::now().saturating_add(life).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_paths_stay_below() {
        for good in ["/tmp/nl-secure/app.env", "app.env", "a/b.c"] {
            assert!(output_path(Some(good), "x").is_ok(), "{good}");
        }
        for bad in ["/etc/passwd", "../x", "/tmp/nl-secure", "", "/tmp/nl-secure/../x", "a b", "a/"]
        {
            assert!(output_path(Some(bad), "x").is_err(), "{bad}");
        }
        for (written, meant) in [
            ("a//b.c", "/tmp/nl-secure/a/b.c"),
            ("a/./b.c", "/tmp/nl-secure/a/b.c"),
            ("/tmp//nl-secure//app.env", "/tmp/nl-secure/app.env"),
        ] {
            let path = output_path(Some(written), "x").unwrap();
            assert_eq!(path.to_string_lossy(), meant, "{written}");
        }
        assert_eq!(output_path(None, "act_1").unwrap(), Path::new("/tmp/nl-secure/act_1"));
    }
}
