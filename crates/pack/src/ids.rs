//! Names made from other names: directories for modules, machine ids, project ids.
//!
//! They must come out as agentpack's do, or its users' overlays would not be found.

use crate::sha::Sha;

/// How much of a module id is readable in a directory's name.
const READABLE: usize = 64;

/// Every char that is not a letter, digit, `_` or `-` becomes `_`.
pub(crate) fn sanitized(id: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    match id.chars().map(fine).collect::<String>() {
        text if text.is_empty() => "module".to_owned(),
        text => text,
    }
}

/// The directory of a module's overlays: readable, then ten digits of its id's digest.
pub fn module_fs_key(id: &str) -> String {
    let mut readable = sanitized(id);
    readable.truncate(READABLE);
    format!("{readable}--{}", Sha::of(id.as_bytes()).prefix(10))
}

/// What older versions made of long ids: the same without the limit.
pub(crate) fn unbounded_fs_key(id: &str) -> String {
    format!("{}--{}", sanitized(id), Sha::of(id.as_bytes()).prefix(10))
}

/// The part of an id after its first colon, or all of it made harmless.
pub(crate) fn name_part(id: &str) -> String {
    match id.split_once(':') {
        Some((_, name)) if !name.is_empty() => name.to_owned(),
        _ => sanitized(id),
    }
}

/// Whether this may stand as one component of a path.
pub(crate) fn is_component(name: &str) -> bool {
    !name.is_empty()
        && !matches!(name, "." | "..")
        && !name.chars().any(|c| matches!(c, '/' | '\\') || c.is_control())
}

/// A machine's id, or a module's, from a name: lower case, runs of other chars as one `-`. `None` when nothing is left.
pub(crate) fn slug(name: &str) -> Option<String> {
    let mut id = String::new();
    for c in name.trim().chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-') => {
                id.push(c);
            }
            _ if id.ends_with('-') => {}
            _ => id.push('-'),
        }
    }
    let id = id.trim_matches('-');
    (!id.is_empty()).then(|| id.to_owned())
}

/// A project's id: the digest of its origin, however that is spelled, or of its directory.
pub(crate) fn project_id(origin: Option<&str>, root: &str) -> String {
    let basis = origin.map_or_else(|| root.to_owned(), normalized_origin);
    Sha::of(basis.as_bytes()).prefix(16)
}

fn normalized_origin(url: &str) -> String {
    let url = url.trim();
    let url = url.strip_suffix(".git").unwrap_or(url);
    let url = match url.strip_prefix("git@").and_then(|rest| rest.split_once(':')) {
        Some((host, path)) => format!("{host}/{path}"),
        None => url.to_owned(),
    };
    let bare = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    bare.unwrap_or(&url).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_modules_are_agentpacks() {
        assert_eq!(module_fs_key("instructions:base"), "instructions_base--d39861fff1");
        assert_eq!(module_fs_key(&"x".repeat(90)).len(), 64 + 2 + 10);
        assert_eq!(sanitized(""), "module");
    }

    #[test]
    fn machines_are_named_by_what_survives_a_path() {
        for (name, id) in [
            ("  Bob's MacBook.local ", Some("bob-s-macbook-local")),
            ("--", None),
            ("A_b-1", Some("a_b-1")),
        ] {
            assert_eq!(slug(name).as_deref(), id, "{name}");
        }
    }

    #[test]
    fn one_project_has_one_id_however_its_origin_is_spelled() {
        let id = project_id(Some("https://github.com/Acme/Web.git"), "/x");
        assert_eq!(id, project_id(Some("git@github.com:acme/web"), "/y"));
        assert_ne!(id, project_id(None, "/x"));
    }

    #[test]
    fn names_that_leave_their_directory_are_no_components() {
        for bad in ["", ".", "..", "a/b", "..\\x", "a\0", "a\nb"] {
            assert!(!is_component(bad), "{bad:?}");
        }
        assert!(is_component("a.b") && is_component("ünï"));
    }
}
