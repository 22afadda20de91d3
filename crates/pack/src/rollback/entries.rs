//! Going back in files that others write too: entries, not files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Goal, Mode, Scene};
use crate::{
    apply::After,
    deployed::{RootManifest, file_name},
    desired::Place,
    error::Result,
    gate::Entries,
    plain_file, servers,
};

impl Scene<'_> {
    /// In files that others write too, only entries that are ours, or were, go back; gives their names.
    pub(super) fn merge(&self, goals: &mut BTreeMap<Place, Goal>) -> Result<Entries> {
        let mut entries = Entries::new();
        let shared = |place: &&Place| servers::is_server_file(place.0, &place.1);
        let places: Vec<Place> = goals.keys().filter(shared).cloned().collect();
        if places.is_empty() {
            return Ok(entries);
        }
        let deployed = self.deployed()?;
        for place in places {
            let mut names = named_then(goals, &place);
            let now = deployed.servers.get(&place);
            names.extend(now.into_iter().flat_map(|file| file.entries.keys().cloned()));
            let then = match &goals[&place] {
                Goal::File { content, .. } => content.text().unwrap_or_default().to_owned(),
                Goal::Absent => String::new(),
                Goal::Link(_) => continue,
            };
            let text = plain_file::read_to_string(&place.1).unwrap_or_default();
            match servers::rolled_back(place.0, &text, &then, &names) {
                Some(After::Absent) => {
                    entries.insert(place.clone(), names);
                    goals.insert(place, Goal::Absent);
                }
                Some(After::File { content, .. }) => {
                    entries.insert(place.clone(), names);
                    goals.insert(place, Goal::File { content, mode: Mode::Kept });
                }
                // It can't be read any more: the whole file goes back, and what stands there is backed up.
                _ => {}
            }
        }
        Ok(entries)
    }
}

/// The entries that were ours in a file, as its root's manifest says that is about to come back.
fn named_then(goals: &BTreeMap<Place, Goal>, (target, path): &Place) -> BTreeSet<String> {
    let manifest = path.with_file_name(file_name(*target).as_str());
    let Some(Goal::File { content, .. }) = goals.get(&(*target, manifest)) else {
        return BTreeSet::new();
    };
    let Ok(manifest) = serde_json::from_slice::<RootManifest>(content.bytes()) else {
        return BTreeSet::new();
    };
    let rows = manifest.merged_files.into_iter().filter(|row| path.ends_with(&row.path));
    rows.flat_map(|row| row.entries.into_keys()).collect()
}
