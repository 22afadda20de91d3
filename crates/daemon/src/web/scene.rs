//! A page for the tests of this room, over a vault of its own.

use std::sync::Arc;

use super::{Desk, Web, visitors::Visit};
use crate::{
    operator::{Approver, Overview},
    places::Places,
    requests::Requests,
    session_book::SessionBook,
    window::{Keeper, UnlockConfig},
};

/// A page that does not listen.
pub(super) struct Scene {
    pub(super) web: Arc<Web>,
    _vault: crate::scene::Scene,
}

impl Scene {
    pub(super) async fn new() -> Self {
        Self::below(std::path::Path::new("/nonexistent")).await
    }

    /// One whose operator keeps their files in `home`.
    pub(super) async fn below(home: &std::path::Path) -> Self {
        let scene = crate::scene::Scene::new().await;
        let (vault, log) = (Arc::clone(&scene.vault), scene.log.clone());
        let window = UnlockConfig::default().window(None).unwrap();
        let desk = Desk {
            requests: Arc::new(Requests::new(&vault, log.clone())),
            approver: Arc::new(Approver::new(Arc::clone(&vault))),
            keeper: Arc::new(Keeper::new(Arc::clone(&vault), log.clone(), window)),
            book: Arc::new(SessionBook::default()),
            lock: Arc::default(),
            places: Places::below(home),
            overview: Overview::with_log(Arc::clone(&vault), log.clone()),
            vault,
            log,
        };
        Self { web: Arc::new(Web::new(Arc::new(desk))), _vault: scene }
    }

    /// A visit of the operator's.
    pub(super) fn proven_visit(&self) -> Arc<Visit> {
        let visitors = &self.web.visitors;
        let opened = visitors
            .open(&visitors.new_link(super::visitors::Whose::Operators).unwrap())
            .unwrap()
            .unwrap();
        let visit = visitors.visit(&opened.place, &opened.cookie).unwrap();
        visit.prove();
        visit
    }
}
