//! The host's trusted certificates, in the forms in which our stores have them. To read them and to turn them into a key
//! store takes longer than all else that a CA needs, so the keeper has them ready for the jails that it starts.

use std::path::Path;

use super::{jks, pem, stores::SYSTEM_KEY_STORES};
use crate::{
    linux::mounts::sight::{FileId, file_id},
    trust::{BUNDLES, system_bundle},
};

/// A key store says at its beginning how many certificates are in it. Of a CA's there is usually one.
const USUAL_CA: usize = 1;

/// What every store of ours begins with.
pub(crate) struct Roots {
    /// Before anything was read.
    seen: Seen,
    /// PEM; empty where the host has none.
    pub(super) bundle: String,
    /// The first bytes of a key store, where the system has one.
    pub(super) key_store: Option<(Vec<u8>, jks::Begun)>,
}

/// What shows that the roots have changed.
#[derive(PartialEq, Eq)]
struct Seen {
    bundle: Option<(&'static str, FileId)>,
    has_key_store: bool,
}

impl Roots {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let seen = Seen::now();
        let bundle = system_bundle();
        let begin = || jks::Begun::new(&pem::certificates(&bundle), USUAL_CA);
        let key_store = seen.has_key_store.then(begin);
        Self { seen, bundle, key_store }
    }

    /// Whether the host's are still those.
    pub(crate) fn are_current(&self) -> bool {
        self.seen == Seen::now()
    }
}

impl Seen {
    fn now() -> Self {
        let mut bundles = BUNDLES.iter().copied();
        let has_key_store = SYSTEM_KEY_STORES.iter().any(|store| Path::new(store).exists());
        Self {
            bundle: bundles.find_map(|path| Some((path, file_id(Path::new(path))?))),
            has_key_store,
        }
    }
}
