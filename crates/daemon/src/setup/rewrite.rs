//! Leaves aliases, or nothing, where values stood in a file. In one step: a reader sees the old file or the new one.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText};
use keyless_vault::read_settings;
use serde::{Serialize, Serializer};

use crate::{places::unusable, whole_file::rewrite_whole};

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftBehind {
    /// The file.
    #[serde(serialize_with = "as_text")]
    pub file: PathBuf,
    /// How many values are gone from it.
    pub replaced: usize,
}

/// A name that is no UTF-8 can be said in none of our answers as it is.
fn as_text<S: Serializer>(file: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&file.to_string_lossy())
}

/// Puts each text in its place in `file`, which must still hold `bytes`. [`Code::PathUnusable`] when it is not: nothing
/// is written then. Blocks.
pub(super) fn rewrite(
    file: &Path,
    bytes: &[u8],
    mut edits: Vec<(Range<usize>, String)>,
) -> Result<LeftBehind, Error> {
    // A link stays one: what it leads to is written.
    let file = fs::canonicalize(file).map_err(|error| unusable(file, &error))?;
    let now =
        zeroize::Zeroizing::new(read_settings(&file).map_err(|error| unusable(&file, &error))?);
    if *now != bytes {
        let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
        let words =
            place.and(" has changed in the meantime; the values are stored, and it is as it was");
        return Err(Error::with(Code::PathUnusable, words));
    }
    edits.sort_by_key(|(place, _)| place.start);
    let mut rest = 0;
    let mut written = Vec::with_capacity(bytes.len());
    for (place, instead) in &edits {
        written.extend_from_slice(&bytes[rest..place.start]);
        written.extend_from_slice(instead.as_bytes());
        rest = place.end;
    }
    written.extend_from_slice(&bytes[rest..]);
    rewrite_whole(&file, &written).map_err(|error| unusable(&file, &error))?;
    Ok(LeftBehind { file, replaced: edits.len() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_stands_round_a_value_stays_and_so_do_mode_and_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join(".env"));
        fs::write(&file, "A=one # why\r\nB='two'\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let edits = vec![(15..20, "x".to_owned()), (2..5, String::new())];
        let left = rewrite(&link, b"A=one # why\r\nB='two'\n", edits).unwrap();
        assert_eq!(
            (left.replaced, fs::read_to_string(&link).unwrap().as_str()),
            (2, "A= # why\r\nB=x\n")
        );
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_somebody_else_wrote_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        fs::write(&file, "A=two\n").unwrap();
        let refused = rewrite(&file, b"A=one\n", vec![(2..5, String::new())]).unwrap_err();
        assert_eq!(refused.code(), Code::PathUnusable);
        assert_eq!(fs::read_to_string(&file).unwrap(), "A=two\n");
    }
}
