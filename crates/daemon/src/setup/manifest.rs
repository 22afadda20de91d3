//! Writes a project's manifest from what was proposed. No value stands in it.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText};
use keyless_vault::PlainFile;
use toml::{Table, Value};

use super::{
    propose::{Judged, Proposal},
    scan::Scan,
};
use crate::{
    places::unusable,
    whole_file::{create_whole, write_whole},
};

const HEAD: &str = "\
# What this project needs, by path; no value stands here, so it may be committed.
# keyless secret validate says what of it is there. Written by keyless setup.
";

/// The most that a manifest which is kept has.
const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// What becomes of a manifest that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is kept beside the new one, as `secrets.toml.before`, or `.before-2` and so on where there is one already.
    Replace,
}

/// Writes `.keyless/secrets.toml` of the project at `root`; gives its place. [`Code::StateUnfit`] when there is one that is to
/// stay. Blocks.
pub fn write(root: &Path, scan: &Scan, existing: Existing) -> Result<PathBuf, Error> {
    let file = root.join(".keyless/secrets.toml");
    let failed = |error: &io::Error| unusable(&file, error);
    let folder = root.join(".keyless");
    fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
    refuse_link(&folder)?;
    if file.symlink_metadata().is_ok() {
        if existing == Existing::Keep {
            let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
            return Err(Error::with(Code::StateUnfit, place.and(" is there; --force replaces it")));
        }
        refuse_link(&file)?;
        keep(&file).map_err(|error| failed(&error))?;
    }
    write_whole(&file, text(scan).as_bytes(), 0o644).map_err(|error| failed(&error))?;
    Ok(file)
}

/// What a link in the project leads to is nobody's manifest to copy: an agent may have put it there, toward what it can't
/// read.
fn refuse_link(place: &Path) -> Result<(), Error> {
    let is_link = place.symlink_metadata().is_ok_and(|about| about.is_symlink());
    if !is_link {
        return Ok(());
    }
    let words = SafeText::default().as_they_wrote(&place.to_string_lossy());
    Err(Error::with(Code::StateUnfit, words.and(" is a link; remove it, then set up again")))
}

/// Copies a manifest beside itself, over none that was kept before.
fn keep(file: &Path) -> io::Result<()> {
    let old = PlainFile::open_unlinked(file)?.bytes(MAX_MANIFEST_BYTES)?;
    let mut number = 1;
    loop {
        let ending = if number == 1 { String::new() } else { format!("-{number}") };
        let kept = file.with_extension(format!("toml.before{ending}"));
        match create_whole(&kept, &old, 0o644) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            done => return done,
        }
    }
}

/// The manifest's text.
fn text(scan: &Scan) -> String {
    let proposals = proposals(scan);
    let mut paths: Vec<&str> = proposals.iter().map(|(one, _)| one.path.as_str()).collect();
    paths.dedup();
    let mut text = format!("{HEAD}required = [\n");
    for path in paths {
        let _ = writeln!(text, "    {path:?},");
    }
    text.push_str("]\n");
    let mut before = "";
    for (proposal, used_in) in &proposals {
        if proposal.path.as_str() == before {
            continue;
        }
        before = proposal.path.as_str();
        let entry =
            Table::from_iter([("env_var".to_owned(), Value::String(proposal.variable.clone()))]);
        let name = &proposal.variable;
        let _ = write!(text, "\n# {name}: {used_in}\n[secret.{before:?}]\n{entry}");
    }
    text
}

/// What was proposed, by path, and where it is used.
fn proposals(scan: &Scan) -> Vec<(&Proposal, String)> {
    let mut all: Vec<(&Proposal, String)> = scan
        .variables
        .values()
        .filter_map(|variable| match &variable.judged {
            Judged::Secret(proposal) => {
                let files: Vec<String> =
                    variable.used_in.iter().map(|file| file.display().to_string()).collect();
                Some((proposal, files.join(", ").replace(|c: char| c.is_control(), "?")))
            }
            Judged::Skip(_) => None,
        })
        .collect();
    all.sort_by(|(a, _), (b, _)| (&a.path, &a.variable).cmp(&(&b.path, &b.variable)));
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_manifest_that_was_replaced_is_kept_however_often() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(".keyless/secrets.toml");
        let kept = |name: &str| fs::read_to_string(file.with_file_name(name)).unwrap_or_default();
        fs::create_dir(root.path().join(".keyless")).unwrap();
        fs::write(&file, "required = [\"our/own/secret\"]").unwrap();
        for _ in 0..3 {
            write(root.path(), &Scan::default(), Existing::Replace).unwrap();
        }
        assert_eq!(kept("secrets.toml.before"), "required = [\"our/own/secret\"]");
        let ours = kept("secrets.toml");
        assert!(ours.starts_with(HEAD), "{ours}");
        assert_eq!(
            [kept("secrets.toml.before-2"), kept("secrets.toml.before-3")],
            [ours.clone(), ours]
        );
    }

    /// An agent can't read what is hidden from it, and can put a link to that where its operator copies.
    #[test]
    fn what_a_link_leads_to_is_not_copied() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let hidden = elsewhere.path().join("secrets.toml");
        fs::write(&hidden, "a-key").unwrap();
        let folder = root.path().join(".keyless");
        let refused =
            || write(root.path(), &Scan::default(), Existing::Replace).unwrap_err().code();
        symlink(elsewhere.path(), &folder).unwrap();
        assert_eq!(refused(), Code::StateUnfit);
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        symlink(&hidden, folder.join("secrets.toml")).unwrap();
        assert_eq!(refused(), Code::StateUnfit);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }
}
