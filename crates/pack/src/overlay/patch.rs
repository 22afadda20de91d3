//! One unified diff per file, applied in memory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::OverlayScope;
use crate::{
    error::{Code, PackError, Result},
    paths::{RelPath, shown},
    sha::Content,
    tree::{Tree, TreeFile},
};

/// Where an overlay keeps its patches.
pub(crate) const FOLDER: &str = ".agentpack/patches";

/// A patch of an overlay.
#[derive(Clone, Debug)]
pub(crate) struct PatchFile {
    pub(crate) path: PathBuf,
    /// The file that it changes.
    pub(crate) target: RelPath,
    pub(crate) content: Content,
}

/// The place of a patch, for messages.
pub(crate) struct Place<'a> {
    pub(crate) module_id: &'a str,
    pub(crate) scope: OverlayScope,
    pub(crate) folder: &'a Path,
}

/// The patches of an overlay, by path.
pub(crate) fn list(overlay: &Path) -> Result<Vec<PatchFile>> {
    let folder = overlay.join(FOLDER);
    if fs::symlink_metadata(&folder).is_err() {
        return Ok(Vec::new());
    }
    let mut patches = Vec::new();
    for (path, file) in Tree::read(&folder)?.0 {
        let full = folder.join(&path);
        let Some(target) = path.as_str().strip_suffix(".patch").and_then(RelPath::parse) else {
            return Err(PackError::config(format!("{} is no .patch file", full.display()))
                .with("path", shown(&full))
                .hint("name it FILE.patch, or remove it"));
        };
        patches.push(PatchFile { path: full, target, content: file.content });
    }
    Ok(patches)
}

/// The file with the patch applied; `None` in, when there is no such file.
pub(crate) fn applied(
    place: &Place<'_>,
    patch: &PatchFile,
    file: Option<&TreeFile>,
) -> Result<TreeFile> {
    let invalid = |message: &str| {
        PackError::config(format!("{}: {message}", patch.path.display()))
            .with("path", shown(&patch.path))
            .with("patch_file", shown(&patch.path))
            .with("overlay_dir", shown(place.folder))
            .with("module_id", place.module_id)
            .with("scope", place.scope.as_str())
            .with("relpath", patch.target.as_str())
            .hint("write the patch again with `agentpack overlay edit --kind patch`, or use a dir overlay")
    };
    let file = file.ok_or_else(|| invalid(&format!("there is no {} to patch", patch.target)))?;
    let before = file.content.text().ok_or_else(|| invalid("the file to patch is not UTF-8"))?;
    let text = patch.content.text().ok_or_else(|| invalid("the patch is not UTF-8"))?;
    if text.contains("\nGIT binary patch") || text.starts_with("GIT binary patch") {
        return Err(invalid("binary patches can't be applied"));
    }
    let headers = headers(text).map_err(&invalid)?;
    if headers.contains(&"/dev/null") {
        return Err(invalid("a patch can neither create nor delete a file; use a dir overlay"));
    }
    let [old, new] = headers.map(strip_side);
    if [old, new] != [patch.target.as_str(); 2] {
        return Err(invalid(&format!("its headers must name {}", patch.target))
            .with("expected_relpath", patch.target.as_str())
            .with("patch_old_path", old)
            .with("patch_new_path", new));
    }
    let parsed = diffy::Patch::from_str(text)
        .map_err(|error| invalid(&format!("it is no unified diff: {error}")))?;
    let after = diffy::apply(before, &parsed).map_err(|error| {
        let message = format!("{} does not fit {}: {error}", patch.path.display(), patch.target);
        PackError::new(Code::OverlayPatchApplyFailed, message)
            .with("module_id", place.module_id)
            .with("scope", place.scope.as_str())
            .with("overlay_dir", shown(place.folder))
            .with("patch_file", shown(&patch.path))
            .with("relpath", patch.target.as_str())
            .with("stderr", error.to_string())
            .hint("run `agentpack overlay rebase` when upstream moved, or write the patch again")
    })?;
    Ok(TreeFile { content: Content::new(after.into_bytes()), executable: file.executable })
}

/// The patch that turns one text into the other, as this overlay stores it.
pub(crate) fn between(target: &RelPath, before: &str, after: &str) -> String {
    let mut options = diffy::DiffOptions::new();
    options.set_original_filename(target.to_string()).set_modified_filename(target.to_string());
    options.create_patch(before, after).to_string()
}

/// The two names of the one file header; lines inside hunks are not taken for headers.
fn headers(text: &str) -> std::result::Result<[&str; 2], &'static str> {
    let mut found = Vec::new();
    let (mut old, mut new) = (0_usize, 0_usize);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if old > 0 || new > 0 {
            match line.as_bytes().first() {
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'+') => new = new.saturating_sub(1),
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
        } else if let Some(range) = line.strip_prefix("@@ -") {
            (old, new) = counts(range).ok_or("a hunk's head can't be read")?;
        } else if let Some(name) = line.strip_prefix("--- ") {
            let next = lines.peek().and_then(|line| line.strip_prefix("+++ "));
            found.push([clean(name), clean(next.ok_or("a `--- ` line needs its `+++ ` line")?)]);
        }
    }
    match found[..] {
        [names] => Ok(names),
        [] => Err("it has no `--- ` and `+++ ` lines"),
        _ => Err("it changes more than one file"),
    }
}

/// `12,3 +12,4 @@` → (3, 4).
fn counts(range: &str) -> Option<(usize, usize)> {
    let (old, rest) = range.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((count(old)?, count(new)?))
}

/// A header's name without the time stamp behind a tab, and without quotes.
fn clean(name: &str) -> &str {
    let name = name.split('\t').next().unwrap_or(name).trim_end();
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name)
}

fn strip_side(name: &str) -> &str {
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(patch: &str, before: &str) -> Result<String> {
        let target = RelPath::parse("dir/a.md").unwrap();
        let patch =
            PatchFile { path: "/p".into(), target, content: Content::new(patch.as_bytes()) };
        let place = Place { module_id: "m", scope: OverlayScope::Global, folder: Path::new("/o") };
        let file = TreeFile { content: Content::new(before.as_bytes()), executable: false };
        let after = applied(&place, &patch, Some(&file))?;
        Ok(after.content.text().unwrap().to_owned())
    }

    #[test]
    fn a_removed_line_that_looks_like_a_header_is_none() {
        let (before, after) = ("a\n-- old\nb\n", "a\n++ new\nb\n");
        let patch = between(&RelPath::parse("dir/a.md").unwrap(), before, after);
        assert!(patch.contains("\n--- old\n+++ new\n"), "{patch}");
        assert_eq!(tried(&patch, before).unwrap(), after);
    }

    #[test]
    fn a_patch_must_be_of_its_own_file_and_fit() {
        let fits = "--- a/dir/a.md\n+++ b/dir/a.md\n@@ -1 +1 @@\n-x\n+y\n";
        assert_eq!(tried(fits, "x\n").unwrap(), "y\n");
        assert_eq!(tried(fits, "z\n").unwrap_err().code(), Code::OverlayPatchApplyFailed);
        for bad in [
            "--- a/other\n+++ b/other\n@@ -1 +1 @@\n-x\n+y\n",
            "--- /dev/null\n+++ b/dir/a.md\n@@ -0,0 +1 @@\n+y\n",
            "@@ -1 +1 @@\n-x\n+y\n",
            "--- dir/a.md\n",
            "GIT binary patch\n",
        ] {
            assert_eq!(tried(bad, "x\n").unwrap_err().code(), Code::ConfigInvalid, "{bad}");
        }
    }
}
