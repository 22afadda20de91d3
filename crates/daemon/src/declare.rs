//! Changes which paths a project's manifest declares: one is added once a person has registered it, and one takes another's
//! place once a person has put its variable's value there. The first is done by the agent's side, with the agent's rights, as it
//! reads the manifest; comments and order stay.

use std::{io, path::Path};

use keyless_core::{Error, SecretPath};
use keyless_vault::{Manifest, read_settings_text};
use toml_edit::{Array, DocumentMut, Item, TableLike, Value};

use crate::{places::unusable, whole_file::rewrite_whole};

/// Declares `path` as optional in the manifest of the project that `folder` lies in. Nothing changes where there is
/// no manifest, or it declares the path already. Blocks.
pub(crate) fn declare(folder: &Path, path: &SecretPath) -> io::Result<()> {
    let Some(project) = Manifest::project_of(folder) else { return Ok(()) };
    let file = project.join(".keyless/secrets.toml");
    let text = read_settings_text(&file)?;
    with_path(&text, path).map_or(Ok(()), |text| rewrite_whole(&file, text.as_bytes()))
}

/// The manifest with `path` in it; nothing when there is nothing to add, or the text can't be edited.
fn with_path(text: &str, path: &SecretPath) -> Option<String> {
    if Manifest::parse(text).ok()?.declares(path) {
        return None;
    }
    let mut document: DocumentMut = text.parse().ok()?;
    let list = document.entry("optional").or_insert(Item::Value(Value::Array(Array::new())));
    append(list.as_array_mut()?, path.as_str().into());
    Some(document.to_string())
}

/// Declares `new` in the place of `old` in the manifest of the project at `project`; says whether that changed it. Blocks.
pub fn declare_instead(project: &Path, old: &SecretPath, new: &SecretPath) -> Result<bool, Error> {
    let file = project.join(".keyless/secrets.toml");
    let Some(text) = with_instead(&Manifest::text_of(project)?, old, new) else {
        return Ok(false);
    };
    rewrite_whole(&file, text.as_bytes()).map_err(|error| unusable(&file, &error))?;
    Ok(true)
}

/// The manifest with `new` wherever `old` stood; nothing when it does not declare `old`, or the text can't be edited.
fn with_instead(text: &str, old: &SecretPath, new: &SecretPath) -> Option<String> {
    let manifest = Manifest::parse(text).ok()?;
    if !manifest.declares(old) {
        return None;
    }
    let mut document: DocumentMut = text.parse().ok()?;
    // In one list alone, and in that of what is required where either of them is.
    let is_required = [old, new].iter().any(|path| manifest.required.contains(*path));
    for (list, is_its) in [("required", is_required), ("optional", !is_required)] {
        let Some(list) = document.get_mut(list).and_then(Item::as_array_mut) else { continue };
        let is = |one: &Value, path: &SecretPath| one.as_str() == Some(path.as_str());
        if !is_its {
            take_out(list, |one| is(one, old) || is(one, new));
            continue;
        }
        let is_there = list.iter().any(|one| is(one, new));
        let place = list.iter().position(|one| is(one, old));
        if let Some(at) = place.filter(|_| !is_there) {
            list.replace(at, new.as_str());
        }
        take_out(list, |one| is(one, old));
    }
    for tables in ["secret", "overrides"] {
        let tables = document.get_mut(tables).and_then(Item::as_table_like_mut);
        let Some(tables): Option<&mut dyn TableLike> = tables else { continue };
        if let Some(entry) = tables.remove(old.as_str())
            && !tables.contains_key(new.as_str())
        {
            tables.insert(new.as_str(), entry);
        }
    }
    Some(document.to_string())
}

/// Takes values out of a list. What is the first then stands behind the bracket as the one that was; one that has a row or a
/// remark of its own keeps them.
fn take_out(list: &mut Array, is_out: impl Fn(&Value) -> bool) {
    let blanks = |value: &Value| {
        let prefix = value.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
        prefix.trim_matches([' ', '\t']).is_empty().then(|| prefix.to_owned())
    };
    let first = list.get(0).and_then(blanks);
    list.retain(|one| !is_out(one));
    if let (Some(first), Some(now)) = (first, list.get_mut(0))
        && blanks(now).is_some()
    {
        now.decor_mut().set_prefix(first);
    }
}

/// Puts `value` behind the others, in a row of its own where they have one each.
pub(crate) fn append(list: &mut Array, mut value: Value) {
    let in_rows = list.iter().any(|value| {
        value.decor().prefix().and_then(|p| p.as_str()).is_some_and(|prefix| prefix.contains('\n'))
    });
    if !in_rows {
        return list.push(value);
    }
    // A remark behind the last one stays in its row.
    let rest = list.trailing().as_str().unwrap_or_default().to_owned();
    let (remark, end) = rest.split_at(rest.rfind('\n').unwrap_or(0));
    value.decor_mut().set_prefix(format!("{remark}\n    "));
    list.push_formatted(value);
    list.set_trailing(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: Option<&str>) {
        let path = SecretPath::parse("team/new/key").unwrap();
        assert_eq!(with_path(before, &path).as_deref(), after);
        if let Some(after) = after {
            assert!(Manifest::parse(after).unwrap().declares(&path));
        }
    }

    #[test]
    fn a_path_takes_anothers_place_wherever_that_stood() {
        let [old, new] = ["team/a/b", "shop/a/b"].map(|path| SecretPath::parse(path).unwrap());
        let instead = |text: &str| with_instead(text, &old, &new);
        let before = "# ours\nrequired = [\n    \"team/a/b\", # needed\n    \"team/c/d\",\n]\n\n# A: .env\n[secret.\"team/a/b\"]\nenv_var = \"A\"\n\n[secret.\"team/c/d\"]\nenv_var = \"C\"\n\n[overrides.\"team/a/b\"]\napprove_on_use = \"session\"\n";
        assert_eq!(instead(before), Some(before.replace("team/a/b", "shop/a/b")));
        assert_eq!(
            instead("required = [\"shop/a/b\"]\noptional = [\"team/a/b\"]\n").as_deref(),
            Some("required = [\"shop/a/b\"]\noptional = []\n")
        );
        assert_eq!(
            instead("required = [\"shop/a/b\", \"team/a/b\"]\n").as_deref(),
            Some("required = [\"shop/a/b\"]\n")
        );
        // Whichever of them was required: its session would begin without a value.
        assert_eq!(
            instead("required = [\"team/a/b\"]\noptional = [\"shop/a/b\", \"team/c/d\"]\n")
                .as_deref(),
            Some("required = [\"shop/a/b\"]\noptional = [\"team/c/d\"]\n")
        );
        // Behind the bracket it is as it was, and rows and remarks stay.
        for (optional, left) in [
            ("[\"team/a/b\", \"team/c/d\"]", "[\"team/c/d\"]"),
            ("[ \"team/a/b\", \"team/c/d\" ]", "[ \"team/c/d\" ]"),
            ("[\"team/c/d\", \"team/a/b\"]", "[\"team/c/d\"]"),
            ("[\n  \"team/a/b\",\n  # c\n  \"team/c/d\",\n]", "[\n  # c\n  \"team/c/d\",\n]"),
        ] {
            let text =
                |optional: &str| format!("required = [\"shop/a/b\"]\noptional = {optional}\n");
            assert_eq!(instead(&text(optional)).as_deref(), Some(&*text(left)));
        }
        assert_eq!(
            instead("required = [\"team/a/b\"]\noptional = [\"team/a/b\"]\n").as_deref(),
            Some("required = [\"shop/a/b\"]\noptional = []\n")
        );
        assert_eq!(instead("required = [\"team/c/d\"]\n"), None);
        assert_eq!(instead("required = ["), None);
    }

    #[test]
    fn a_path_is_added_once_and_the_rest_stays() {
        check("", Some("optional = [\"team/new/key\"]\n"));
        check("optional = [\"team/new/key\"]", None);
        check("required = [\"team/new/key\"] # needed", None);
        check(
            "# ours\nrequired = [\"team/a/b\"] # needed\noptional = [\"team/c/d\"]\n\n[secret.\"team/a/b\"]\ndescription = \"x\"\n",
            Some(
                "# ours\nrequired = [\"team/a/b\"] # needed\noptional = [\"team/c/d\", \"team/new/key\"]\n\n[secret.\"team/a/b\"]\ndescription = \"x\"\n",
            ),
        );
        check(
            "optional = [\n    \"team/c/d\",\n]\n",
            Some("optional = [\n    \"team/c/d\",\n    \"team/new/key\",\n]\n"),
        );
        check(
            "optional = [\n    \"team/c/d\", # ours\n]\n",
            Some("optional = [\n    \"team/c/d\", # ours\n    \"team/new/key\",\n]\n"),
        );
        check(
            "[secret.\"team/a/b\"]\ndescription = \"x\"\n",
            Some("optional = [\"team/new/key\"]\n[secret.\"team/a/b\"]\ndescription = \"x\"\n"),
        );
        check("optional = 3", None);
        check("optional = [", None);
    }
}
