//! Adds a path to a project's manifest, once a person has registered it. The agent's side does that, with the agent's
//! rights, as it reads the manifest; comments and order stay.

use std::{io, path::Path};

use keyless_core::SecretPath;
use keyless_vault::{Manifest, read_settings_text};
use toml_edit::{Array, DocumentMut, Item, Value};

use crate::whole_file::rewrite_whole;

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
