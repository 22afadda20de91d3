//! The leaves of a session, least recently used first out: an agent that walks through random
//! names can't grow memory. Source: reference/egress.md (c) 29, (e) 111.

use std::collections::HashMap;

use keyless_core::Host;
use parking_lot::Mutex;

use super::authority::Leaf;

/// A bounded cache.
pub(super) struct Leaves {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_host: HashMap<Host, (Leaf, u64)>,
    clock: u64,
}

impl Leaves {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), inner: Mutex::default() }
    }

    pub(super) fn get(&self, host: &Host) -> Option<Leaf> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        let (leaf, used) = inner.by_host.get_mut(host)?;
        *used = clock;
        Some(leaf.clone())
    }

    pub(super) fn put(&self, host: Host, leaf: Leaf) {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        if inner.by_host.len() >= self.most && !inner.by_host.contains_key(&host) {
            let oldest = inner.by_host.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(host, _)| host.clone()) {
                inner.by_host.remove(&oldest);
            }
        }
        inner.by_host.insert(host, (leaf, clock));
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::SystemTime};

    use super::*;
    use crate::tls::CertificateAuthority;

    #[test]
    fn the_least_recently_used_goes_first() {
        let authority = CertificateAuthority::mint(2).unwrap();
        let serve = |name: &str| authority.serve(&Host::parse(name).unwrap()).unwrap();
        let (a, b) = (serve("a.test"), serve("b.test"));
        assert!(Arc::ptr_eq(&a, &serve("a.test")));
        serve("c.test");
        assert!(Arc::ptr_eq(&a, &serve("a.test")));
        assert!(!Arc::ptr_eq(&b, &serve("b.test")));
    }

    #[test]
    fn ten_thousand_names_leave_no_more_than_may_stay() {
        let authority = CertificateAuthority::mint(2).unwrap();
        let host = |number: u32| Host::parse(&format!("n{number}.test")).unwrap();
        let leaf = authority.mint_leaf(&host(0), SystemTime::now()).unwrap();
        let leaves = Leaves::new(256);
        (0..10_000).for_each(|number| leaves.put(host(number), leaf.clone()));
        assert_eq!(leaves.inner.lock().by_host.len(), 256);
        assert!(leaves.get(&host(9_999)).is_some() && leaves.get(&host(0)).is_none());
    }
}
