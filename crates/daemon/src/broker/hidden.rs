//! What the operator hides from a run, and so from the actions that agents have done meanwhile: else an action would be
//! a way to it, the run's own or another agent's that does its work.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

/// The paths of all runs that are open.
#[derive(Default)]
pub(crate) struct Hidden(Mutex<Vec<Weak<[PathBuf]>>>);

impl Hidden {
    /// Hides these for as long as what is given is held.
    pub(crate) fn hide(&self, paths: Vec<PathBuf>) -> Arc<[PathBuf]> {
        let held = Arc::from(paths);
        self.0.lock().push(Arc::downgrade(&held));
        held
    }

    /// All that are hidden now.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let mut all = self.0.lock();
        all.retain(|paths| paths.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).flat_map(|paths| paths.to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_hidden_for_as_long_as_a_run_is_open() {
        let hidden = Hidden::default();
        let (one, two) = (PathBuf::from("/etc/one"), PathBuf::from("/etc/two"));
        let (first, second) = (hidden.hide(vec![one.clone()]), hidden.hide(vec![two.clone()]));
        assert_eq!(hidden.all(), [one, two.clone()]);
        drop(first);
        assert_eq!(hidden.all(), [two]);
        drop(second);
        assert!(hidden.all().is_empty());
    }
}
