//! What a deploy changes in the files of servers, and what a rollback does.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{DeployedServers, Document, ServerFile, digest};
use crate::{
    apply::{After, Step},
    beneath::{Beneath, Disk},
    deployed::{Deployed, confine},
    desired::{Desired, Place},
    error::{PackError, Result},
    paths::{RelPath, shown},
    plan::{Change, Op, UpdateKind, change},
    sha::{Content, Sha},
    site::Site,
    targets::TargetId,
};

/// One change for each file whose entries are not as wanted.
pub(crate) fn compared(
    site: &Site,
    desired: &Desired,
    deployed: &Deployed,
) -> Result<Vec<(Change, Step)>> {
    let places: BTreeSet<&Place> = desired.servers.keys().chain(deployed.servers.keys()).collect();
    let mut pairs = Vec::new();
    for place in places {
        let (wanted, ours) = (desired.servers.get(place), deployed.servers.get(place));
        pairs.extend(file_change(site, place, wanted, ours)?);
    }
    Ok(pairs)
}

fn file_change(
    site: &Site,
    place: &Place,
    wanted: Option<&ServerFile>,
    ours: Option<&DeployedServers>,
) -> Result<Option<(Change, Step)>> {
    let Some((root, path)) =
        wanted.map(|file| (&file.root, &file.path)).or(ours.map(|file| (&file.root, &file.path)))
    else {
        return Ok(None);
    };
    let none = (BTreeMap::new(), BTreeMap::new());
    let entries = wanted.map_or(&none.0, |file| &file.entries);
    let recorded = ours.map_or(&none.1, |file| &file.entries);
    if entries.is_empty() && recorded.is_empty() {
        return Ok(None);
    }
    let (disk, text) = read(site, place, root, path)?;
    let mut document = parsed(place, &text)?;
    let (mut adopted, mut edited, mut differs) = (false, false, false);
    for (name, entry) in entries {
        let there = document.get(name);
        if there.as_ref() == Some(entry) {
            continue;
        }
        let known = recorded.get(name);
        // An entry of that name that we did not write is the user's.
        adopted |= known.is_none() && there.is_some();
        edited |=
            known.is_some_and(|sha| there.as_ref().is_some_and(|there| digest(there) != *sha));
        differs = true;
        document.set(name, entry);
    }
    for (name, sha) in recorded.iter().filter(|(name, _)| !entries.contains_key(*name)) {
        let Some(there) = document.get(name) else { continue };
        edited |= digest(&there) != *sha;
        differs = true;
        document.remove(name);
    }
    if !differs {
        return Ok(None);
    }
    let after = after(&document, entries.is_empty());
    let (op, kind, reason) = match (&disk, &after) {
        (_, After::Absent) => (Op::Delete, None, "no server is left in it"),
        (Disk::Absent, _) => (Op::Create, None, "file missing"),
        _ if adopted => {
            (Op::Update, Some(UpdateKind::AdoptUpdate), "would overwrite an unmanaged server")
        }
        _ => (Op::Update, Some(UpdateKind::ManagedUpdate), "servers differ"),
    };
    let change = change(place, op, kind, reason, edited, &disk, after.sha());
    let step = Step {
        target: place.0,
        root: root.clone(),
        path: path.clone(),
        op: match op {
            Op::Create => "create",
            Op::Delete => "delete",
            Op::Update => "update",
        },
        before: disk,
        after,
        adopted,
    };
    Ok(Some((change, step)))
}

/// The file, or nothing where only our own entries had been in it.
fn after(document: &Document, may_go: bool) -> After {
    if may_go && document.is_empty() {
        return After::Absent;
    }
    let content = Content::new(document.text().into_bytes());
    After::File { content, executable: false }
}

/// What stands there, and its text.
fn read(site: &Site, place: &Place, root: &Path, path: &RelPath) -> Result<(Disk, String)> {
    let Some(folder) = Beneath::open(root, confine(site, root))? else {
        return Ok((Disk::Absent, String::new()));
    };
    let disk = folder.look(path)?;
    match &disk {
        Disk::Absent => Ok((disk, String::new())),
        Disk::File(_) => {
            let bytes = folder.read(path)?.unwrap_or_default();
            if disk.sha() != Some(Sha::of(&bytes)) {
                return Err(unreadable(
                    place,
                    "changed while it was read",
                    "run the command again",
                ));
            }
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| unreadable(place, "is not UTF-8", "mend the file"))?;
            Ok((disk, text))
        }
        Disk::Directory | Disk::Link(_) => {
            let hint = "put a file there, or switch `write_mcp_servers` off for the target";
            Err(unreadable(place, "is no regular file", hint))
        }
    }
}

fn parsed(place: &Place, text: &str) -> Result<Document> {
    Document::parse(place.0, text).map_err(|why| {
        unreadable(place, &format!("can't be read: {why}"), "mend the file; it was left alone")
    })
}

fn unreadable(place: &Place, what: &str, hint: &str) -> PackError {
    let path = shown(&place.1);
    PackError::config(format!("{path} {what}"))
        .with("target", place.0.as_str())
        .with("path", path.clone())
        .with("path_posix", path)
        .hint(hint)
}

/// The file as it stands, with the entries `names` as they were `then`; `None` when one of both can't be read.
pub(crate) fn rolled_back(
    target: TargetId,
    now: &str,
    then: &str,
    names: &BTreeSet<String>,
) -> Option<After> {
    let mut document = Document::parse(target, now).ok()?;
    let past = Document::parse(target, then).ok()?;
    for name in names {
        match past.get(name) {
            Some(entry) if document.get(name).as_ref() == Some(&entry) => {}
            Some(entry) => document.set(name, &entry),
            None => document.remove(name),
        }
    }
    Some(after(&document, then.is_empty()))
}

/// The entries `names` of a file, as text for a diff: the rest is nobody's business.
pub(crate) fn ours_in(target: TargetId, names: &BTreeSet<String>, text: &str) -> Option<String> {
    let document = Document::parse(target, text).ok()?;
    let held = names.iter().filter_map(|name| Some((name.clone(), document.get(name)?)));
    let held: serde_json::Map<_, _> = held.collect();
    if held.is_empty() {
        return Some(String::new());
    }
    let text = serde_json::to_string_pretty(&held).expect("values read from text");
    Some(format!("{text}\n"))
}
