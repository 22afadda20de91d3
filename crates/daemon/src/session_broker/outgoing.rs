//! The values that one session has sent out, for who looks through what its programs have said.

use std::collections::VecDeque;

use keyless_action::WentOut;
use keyless_core::SecretPath;
use parking_lot::Mutex;
use zeroize::Zeroizing;

/// As many minted tokens as are remembered, the newest: a server gives out as many as it is asked for.
const MINTED: usize = 64;

/// Each value once.
#[derive(Default)]
pub(crate) struct Outgoing(Mutex<Sent>);

#[derive(Default)]
struct Sent {
    /// Values of secrets, of which a session has so many.
    kept: VecDeque<WentOut>,
    minted: VecDeque<WentOut>,
}

impl Outgoing {
    pub(super) fn note(&self, path: &SecretPath, value: &[u8], is_minted: bool) {
        let mut sent = self.0.lock();
        let all = if is_minted { &mut sent.minted } else { &mut sent.kept };
        if all.iter().all(|known| known.path != *path || *known.value != value) {
            if is_minted && all.len() >= MINTED {
                all.pop_front();
            }
            all.push_back(WentOut { path: path.clone(), value: Zeroizing::new(value.to_vec()) });
        }
    }

    /// What has gone out so far.
    pub(crate) fn so_far(&self) -> Vec<WentOut> {
        let sent = self.0.lock();
        sent.minted.iter().chain(&sent.kept).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_tokens_are_minted_a_secrets_own_value_stays() {
        let sent = Outgoing::default();
        let path = |name: &str| SecretPath::parse(name).unwrap();
        sent.note(&path("team/auth/client"), b"the client's own", false);
        for number in 0..3 * MINTED {
            let token = format!("token-{number}");
            sent.note(&path(&format!("team/auth/access-token-{number}")), token.as_bytes(), true);
            sent.note(&path("team/auth/client"), b"the client's own", false);
        }
        let all = sent.so_far();
        assert_eq!(all.len(), MINTED + 1);
        assert_eq!(all.last().unwrap().value.as_slice(), b"the client's own");
    }
}
