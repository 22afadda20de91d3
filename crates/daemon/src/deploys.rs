//! Whether a plan of the pack may be carried out: where the operator wants to be asked, a person says so first.
//!
//! The operator's config.toml decides, never a repo. The engine runs on the agent's side and waits for nothing: it is
//! told that a person is asked, and tries again. What was allowed is exactly what was shown, once.

use std::path::PathBuf;

use jiff::Timestamp;
use keyless_core::{
    Error,
    approval::{Asked, RequestId, WantedDeploy},
};
use serde::{Deserialize, Serialize};

use crate::{
    approvals::{Question, Stand},
    config::{ApproveApply, Config},
    places::{Places, is_in_asking_session},
    requests::Requests,
    service::agent_call,
};

/// The session that deploys from no session are put down to: an approval outlives the process that asked for it.
pub(crate) const PACK_SESSION: &str = "pack";

/// What would carry a plan out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeployBy {
    /// `keyless pack deploy --apply`.
    CommandLine,
    /// An agent's tool, `deploy_apply`.
    Tool,
}

/// How a plan stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum DeployWord {
    /// It may be carried out now.
    Go,
    /// A person is asked.
    Waits {
        /// The request's name.
        id: RequestId,
        /// Seconds until it is too late to answer.
        seconds_left: u64,
    },
}

/// The way to the person who answers for deploys.
#[derive(Clone, Debug)]
pub struct DeployGate {
    by: DeployBy,
    socket: Option<PathBuf>,
}

impl DeployGate {
    /// The gate for one deploy, as the config is now. In a session, whose jail shows no config, the broker decides.
    pub fn new(places: &Places, by: DeployBy) -> Result<Self, Error> {
        let asks = is_in_asking_session() || {
            let config = Config::load(&places.config_file())?;
            config.pack.approve_apply.covers(by)
        };
        Ok(Self { by, socket: asks.then(|| places.tools_socket()) })
    }

    /// Whether nobody has to be asked.
    pub fn is_open(&self) -> bool {
        self.socket.is_none()
    }

    /// Uses up a person's word for this plan, or asks for it. Fails with
    /// [`Code::ApprovalDenied`](keyless_core::Code::ApprovalDenied), or as the broker does when there is nobody to ask.
    pub async fn pass(&self, wanted: WantedDeploy) -> Result<DeployWord, Error> {
        match &self.socket {
            None => Ok(DeployWord::Go),
            Some(socket) => agent_call::deploy(socket, self.by, wanted.bounded()).await,
        }
    }
}

/// The broker's side.
pub(crate) async fn stand(
    requests: &Requests,
    places: &Places,
    session: &str,
    by: DeployBy,
    wanted: Box<WantedDeploy>,
) -> Result<DeployWord, Error> {
    if !Config::load(&places.config_file())?.pack.approve_apply.covers(by) {
        return Ok(DeployWord::Go);
    }
    let asked = Asked::DeployApply { wanted };
    match requests.stand(Question { session, path: None, asked }).await? {
        Stand::Passed => Ok(DeployWord::Go),
        Stand::Waits(request) => {
            let left = request.expires_at.duration_since(Timestamp::now()).as_secs();
            Ok(DeployWord::Waits { id: request.id, seconds_left: u64::try_from(left).unwrap_or(0) })
        }
    }
}

impl ApproveApply {
    fn covers(self, by: DeployBy) -> bool {
        self == Self::Always || (self == Self::Tools && by == DeployBy::Tool)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use keyless_core::approval::{FileOp, PackVerb, WantedFile};
    use keyless_core::{Code, approval::Decision};

    use super::*;
    use crate::scene::Scene;

    fn plan(hash: &str, diff: &str) -> Box<WantedDeploy> {
        let word = |text: &str| text.to_owned();
        let (op, path, diff) = (FileOp::Create, word("/home/u/.codex/AGENTS.md"), Some(word(diff)));
        Box::new(WantedDeploy {
            verb: PackVerb::default(),
            plan_hash: hash.repeat(64),
            project: word("/p"),
            repo: word("/r"),
            profile: word("default"),
            machine: word("m"),
            files: vec![WantedFile { op, path, adopted: false, edited: false, diff }],
            more_files: 0,
        })
    }

    #[tokio::test]
    async fn a_word_is_good_for_one_plan_as_it_was_shown_and_once() {
        let scene = Scene::new().await;
        let places = Places::below(scene.folder.path());
        let requests = Requests::new(&scene.vault, scene.log.clone());
        let stand = |wanted| stand(&requests, &places, PACK_SESSION, DeployBy::Tool, wanted);
        assert_eq!(
            stand(plan("a", "+a")).await.unwrap(),
            DeployWord::Go,
            "nobody wants to be asked"
        );
        fs::write(places.config_file(), "[pack]\napprove_apply = \"tools\"").unwrap();
        let waits = |word: DeployWord| match word {
            DeployWord::Waits { id, .. } => id,
            DeployWord::Go => panic!("it may be carried out"),
        };
        let id = waits(stand(plan("a", "+a")).await.unwrap());
        assert_eq!(waits(stand(plan("a", "+a")).await.unwrap()), id, "asked once");
        requests.settle(&id, Decision::AllowOnce).await.unwrap();
        // The same digest with other lines, or other lines' digest, is another plan.
        let other = waits(stand(plan("a", "+b")).await.unwrap());
        assert_ne!(other, id);
        assert_ne!(waits(stand(plan("b", "+a")).await.unwrap()), id);
        assert_eq!(stand(plan("a", "+a")).await.unwrap(), DeployWord::Go);
        assert_ne!(waits(stand(plan("a", "+a")).await.unwrap()), id, "it was used up");
        requests.settle(&other, Decision::Deny).await.unwrap();
        let denied = stand(plan("a", "+b")).await.unwrap_err();
        assert_eq!(denied.code(), Code::ApprovalDenied);
    }
}
