//! How the broker stands to a process that asks it: whether that could have put another in its place.
//!
//! Structural, by the chain of parents, never by names. Source: reference/secrets.md, section 8.2.

use keyless_mcp::secrets::TrustLevel;

use crate::system::parent;

/// More parents than any real chain has.
const MAX_DEPTH: usize = 64;

/// The trust that the process `peer` may have in this one.
pub(crate) fn trust_level(peer: Option<i32>) -> TrustLevel {
    let Some(peer) = peer.and_then(|peer| u32::try_from(peer).ok()) else {
        return TrustLevel::Independent;
    };
    // An agent asks through a child of its own: `keyless mcp`.
    let theirs = [Some(peer), parent(peer)];
    let parents = std::iter::successors(parent(std::process::id()), |process| parent(*process));
    let ours = parents.take(MAX_DEPTH).take_while(|process| *process > 1);
    if ours.into_iter().any(|process| theirs.contains(&Some(process))) {
        TrustLevel::AgentParented
    } else {
        TrustLevel::Independent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_told() {
        let parent = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        assert_eq!(trust_level(Some(parent)), TrustLevel::AgentParented);
        assert_eq!(trust_level(Some(i32::MAX)), TrustLevel::Independent);
        assert_eq!(trust_level(None), TrustLevel::Independent);
    }
}
