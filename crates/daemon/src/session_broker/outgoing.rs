//! The values that one session has sent out, for who looks through what its programs have said.

use keyless_action::WentOut;
use keyless_core::SecretPath;
use parking_lot::Mutex;
use zeroize::Zeroizing;

/// Each value once.
#[derive(Default)]
pub(crate) struct Outgoing(Mutex<Vec<WentOut>>);

impl Outgoing {
    pub(super) fn note(&self, path: &SecretPath, value: &[u8]) {
        let mut all = self.0.lock();
        if all.iter().all(|known| known.path != *path || *known.value != value) {
            all.push(WentOut { path: path.clone(), value: Zeroizing::new(value.to_vec()) });
        }
    }

    /// What has gone out so far.
    pub(crate) fn so_far(&self) -> Vec<WentOut> {
        self.0.lock().clone()
    }
}
