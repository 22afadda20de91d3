//! Reads a template's file for an agent.
//!
//! The broker may read more than the agent, so that only what everybody may read is taken, and nothing
//! that a jail hides: else an action would be a way to files that the agent's jail hides.

use std::{
    env,
    fs::{self, File},
    io::{self, Read as _},
    os::{fd::AsFd, unix::fs::MetadataExt as _},
    path::{Component, Path, PathBuf},
};

use keyless_core::{Code, SafeText, nl_message::NlFault};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// The largest template, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
const EVERYBODY_READS: u32 = 0o004;
const EVERYBODY_PASSES: u32 = 0o001;

/// Places that are nobody's business, by device and number: a place may have several names.
pub(super) struct Hidden(Vec<(u64, u64)>);

impl Hidden {
    /// Those that a jail hides by default, and these.
    pub(super) fn with(more: Vec<PathBuf>) -> Self {
        let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let mut all = keyless_jail::default_hidden(&home, |name| env::var_os(name));
        all.extend(more);
        let place = |path: &PathBuf| Some(place(&fs::metadata(path).ok()?));
        Self(all.iter().filter_map(place).collect())
    }

    fn holds(&self, about: &fs::Metadata) -> bool {
        self.0.contains(&place(about))
    }
}

/// The text of a template's file.
pub(super) fn read(path: &str, hidden: &Hidden) -> Result<String, NlFault> {
    let refuse = |why: &'static str| {
        let words = SafeText::words("template_path: ").and(why);
        NlFault::new(Code::PathUnusable, words)
            .suggesting(SafeText::words("Send the text as template_content."))
    };
    let path = Path::new(path);
    let (Some(folder), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute())
    else {
        return Err(refuse("it is not absolute"));
    };
    let unusable = |_| refuse("it can't be read");
    let folder = folder.canonicalize().map_err(unusable)?;
    let names = folder.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    // Step by step and through no link, so that nothing is put in its place in between.
    let mut at = open(CWD, Path::new("/"), OFlags::DIRECTORY).map_err(unusable)?;
    for name in names {
        at = open(&at, Path::new(name), OFlags::DIRECTORY).map_err(unusable)?;
        let about = at.metadata().map_err(unusable)?;
        if about.mode() & EVERYBODY_PASSES == 0 || hidden.holds(&about) {
            return Err(refuse("it lies where not everybody may look"));
        }
    }
    let file = open(&at, Path::new(name), OFlags::NONBLOCK).map_err(unusable)?;
    let about = file.metadata().map_err(unusable)?;
    if !about.is_file() || about.mode() & EVERYBODY_READS == 0 || hidden.holds(&about) {
        return Err(refuse("it is no file that everybody may read"));
    }
    if about.len() > MAX_BYTES {
        return Err(refuse("it has more than 1 MiB"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|_| refuse("it is no UTF-8 text"))?;
    Ok(text)
}

fn open(at: impl AsFd, name: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?.into())
}

fn place(about: &fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_what_everybody_may_read_is_read() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "text").unwrap();
        let read = |path: &Path, hidden: &[&Path]| {
            let hidden = Hidden::with(hidden.iter().map(|path| path.to_path_buf()).collect());
            super::read(path.to_str().unwrap(), &hidden).ok()
        };
        for path in [top.path(), &folder] {
            set_mode(path, 0o755);
        }
        set_mode(&file, 0o644);
        let text = Some("text".to_owned());
        assert_eq!(read(&file, &[]), text);
        symlink(&folder, top.path().join("link")).unwrap();
        let by_link = top.path().join("link/file");
        assert_eq!(read(&by_link, &[]), text);
        // What a jail hides, under each of its names.
        for hidden in [&folder, &file] {
            assert_eq!((read(&file, &[hidden]), read(&by_link, &[hidden])), (None, None));
        }
        set_mode(&folder, 0o750);
        assert_eq!((read(&file, &[]), read(&by_link, &[])), (None, None), "in a private folder");
        set_mode(&folder, 0o711);
        set_mode(&file, 0o640);
        assert_eq!(read(&file, &[]), None);
        set_mode(&file, 0o644);
        symlink(&file, folder.join("other")).unwrap();
        assert_eq!(read(&folder.join("other"), &[]), None, "a link");
        assert_eq!(read(Path::new("file"), &[]), None);
    }
}
