//! The pack's tools for agents: `agentpack mcp serve` and `keyless mcp --toolset pack`.
//!
//! Calls that write take turns, calls that read wait for them, so that nobody here sees half of an apply. Other
//! processes are kept away by the engine's own locks. Neither vault nor broker is needed, unless a person answers for
//! deploys.

use std::{path::PathBuf, pin::Pin, sync::Arc};

use keyless_core::Error;
use keyless_daemon::{
    DeployBy,
    mcp::{
        Packs, Server, Toolset,
        pack::{Answered, Ask, Call, Drift, Explained, Place, Refusal, Scope, Tool, Watch},
        serve_stdio,
    },
};
use keyless_pack::{
    Answer, Code, CommandId, Doctor, DriftKind, Envelope, OverlayScope, PackError, ProposeOptions,
    Request, Surroundings, TokenForms,
    commands::{self, ApplyOptions},
};
use serde::Serialize;
use tokio::sync::RwLock;

/// The engine behind the tools.
pub(crate) struct PackTools {
    /// What a call that names nothing else works with.
    defaults: Request,
    forms: TokenForms,
    turns: Arc<RwLock<()>>,
}

/// Serves on stdin and stdout until stdin ends, and what was begun has ended too.
pub(crate) async fn serve(defaults: Request) -> Result<(), Error> {
    let tools = Arc::new(PackTools::new(defaults));
    let served = serve_stdio(Server::new(Toolset::Pack(Arc::clone(&tools) as _))).await;
    drop(tools.turns.write().await);
    served
}

impl PackTools {
    pub(crate) fn new(defaults: Request) -> Self {
        Self { defaults, forms: super::token_forms(), turns: Arc::default() }
    }

    fn request(&self, place: Place) -> Request {
        let defaults = self.defaults.clone();
        Request {
            repo: place.repo.or(defaults.repo),
            profile: place.profile.or(defaults.profile),
            target: place.target.or(defaults.target),
            machine: place.machine.or(defaults.machine),
        }
    }

    async fn run(&self, call: Call, watch: Box<dyn Watch>) -> Answered {
        let Call { mut place, ask } = call;
        let (id, cwd) = (id_of(&ask), place.cwd.take());
        let turns = Arc::clone(&self.turns);
        let turn = if writes(&ask) {
            Turn::Write(turns.write_owned().await)
        } else {
            Turn::Read(turns.read_owned().await)
        };
        let (request, forms) = (self.request(place), self.forms.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            surroundings(cwd, forms, watch.as_ref())
                .map_or_else(|error| failed(id, &error), |at| done(&at, &request, ask, watch))
        });
        done.await.unwrap_or_else(|_| {
            let fault = PackError::new(Code::Unexpected, "the call ended in a fault of the server");
            failed(id, &fault)
        })
    }
}

impl Packs for PackTools {
    fn call(
        &self,
        call: Call,
        watch: Box<dyn Watch>,
    ) -> Pin<Box<dyn Future<Output = Answered> + Send + '_>> {
        Box::pin(self.run(call, watch))
    }

    fn refuse(&self, tool: Tool, refusal: Refusal) -> Answered {
        let id = id_of_tool(tool);
        let error = match refusal {
            Refusal::Arguments(words) => PackError::new(Code::ArgumentsInvalid, words),
            // The engine says it as it does to everybody.
            Refusal::Unconfirmed => match commands::confirmed(false, &id.id()) {
                Ok(()) => PackError::new(Code::ConfirmRequired, "yes is missing"),
                Err(error) => error,
            },
        };
        failed(id, &error)
    }
}

/// Held while a call works.
#[expect(dead_code, reason = "they are held, not read")]
enum Turn {
    Read(tokio::sync::OwnedRwLockReadGuard<()>),
    Write(tokio::sync::OwnedRwLockWriteGuard<()>),
}

/// A watch of the protocol's as one of the engine's.
struct Watched(Box<dyn Watch>);

impl keyless_pack::Watch for Watched {
    fn progress(&self, done: usize, total: usize) {
        self.0.progress(done, total);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

fn surroundings(
    cwd: Option<PathBuf>,
    forms: TokenForms,
    watch: &dyn Watch,
) -> Result<Surroundings, PackError> {
    if watch.is_cancelled() {
        return Err(PackError::new(Code::Cancelled, "the call was withdrawn before it began"));
    }
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let message = format!("the working directory {} is not there", cwd.display());
        return Err(
            PackError::new(Code::IoInvalidPath, message).with("path", cwd.display().to_string())
        );
    }
    super::surroundings(cwd, forms, DeployBy::Tool)
}

fn done(at: &Surroundings, request: &Request, ask: Ask, watch: Box<dyn Watch>) -> Answered {
    let (id, watch) = (id_of(&ask), Watched(watch));
    match ask {
        Ask::Deploy => told(id, commands::deploy_for_review(at, request)),
        Ask::DeployApply { adopt, dry_run, confirm_token } => {
            let options = ApplyOptions { adopt, dry_run, yes: true, confirm_token };
            told(id, commands::deploy_apply(at, request, &options, &watch))
        }
        Ask::Diff | Ask::Plan => told(id, commands::plan(at, request)),
        Ask::Doctor => told(id, commands::doctor(at, request, Doctor::Look, false)),
        Ask::EvolvePropose { module_id, scope, branch, dry_run } => {
            let scope = scope_of(scope);
            let options = ProposeOptions { module_id, scope, branch, dry_run, yes: !dry_run };
            told(id, commands::evolve_propose(at, request, &options))
        }
        Ask::EvolveRestore { module_id, dry_run } => {
            let module = module_id.as_deref();
            told(id, commands::evolve_restore(at, request, module, dry_run, !dry_run))
        }
        Ask::Explain(Explained::Diff | Explained::Plan) => {
            told(id, commands::explain_plan(at, request))
        }
        Ask::Explain(Explained::Status) => told(id, commands::explain_status(at, request)),
        Ask::Preview { diff } => told(id, commands::preview(at, request, diff)),
        Ask::Rollback { to } => told(id, commands::rollback(at, request, &to, true, &watch)),
        Ask::Status(only) => {
            let only: Vec<DriftKind> = only.into_iter().map(drift_of).collect();
            told(id, commands::status(at, request, &only))
        }
    }
}

fn told<T: Serialize>(id: CommandId, outcome: Result<Answer<T>, PackError>) -> Answered {
    match outcome {
        Ok(answer) => {
            let envelope = Envelope::success(id, answer);
            Answered { ok: true, text: envelope.text(), envelope: envelope.value() }
        }
        Err(error) => failed(id, &error),
    }
}

fn failed(id: CommandId, error: &PackError) -> Answered {
    let envelope = Envelope::failure_dotted(id, error);
    Answered { ok: false, text: envelope.text(), envelope: envelope.value() }
}

fn writes(ask: &Ask) -> bool {
    match ask {
        Ask::DeployApply { dry_run, .. }
        | Ask::EvolvePropose { dry_run, .. }
        | Ask::EvolveRestore { dry_run, .. } => !dry_run,
        Ask::Rollback { .. } => true,
        _ => false,
    }
}

fn id_of(ask: &Ask) -> CommandId {
    match ask {
        Ask::Deploy | Ask::DeployApply { dry_run: true, .. } => id_of_tool(Tool::Deploy),
        Ask::DeployApply { .. } => id_of_tool(Tool::DeployApply),
        Ask::Diff => id_of_tool(Tool::Diff),
        Ask::Doctor => id_of_tool(Tool::Doctor),
        Ask::EvolvePropose { .. } => id_of_tool(Tool::EvolvePropose),
        Ask::EvolveRestore { .. } => id_of_tool(Tool::EvolveRestore),
        Ask::Explain(Explained::Diff) => CommandId::new(&["explain", "diff"]),
        Ask::Explain(Explained::Plan) => CommandId::new(&["explain", "plan"]),
        Ask::Explain(Explained::Status) => CommandId::new(&["explain", "status"]),
        Ask::Plan => id_of_tool(Tool::Plan),
        Ask::Preview { .. } => id_of_tool(Tool::Preview),
        Ask::Rollback { .. } => id_of_tool(Tool::Rollback),
        Ask::Status(_) => id_of_tool(Tool::Status),
    }
}

fn id_of_tool(tool: Tool) -> CommandId {
    CommandId::new(match tool {
        Tool::Deploy => &["deploy"],
        Tool::DeployApply => &["deploy", "--apply"],
        Tool::Diff => &["diff"],
        Tool::Doctor => &["doctor"],
        Tool::EvolvePropose => &["evolve", "propose"],
        Tool::EvolveRestore => &["evolve", "restore"],
        Tool::Explain => &["explain"],
        Tool::Plan => &["plan"],
        Tool::Preview => &["preview"],
        Tool::Rollback => &["rollback"],
        Tool::Status => &["status"],
    })
}

fn scope_of(scope: Scope) -> OverlayScope {
    match scope {
        Scope::Global => OverlayScope::Global,
        Scope::Machine => OverlayScope::Machine,
        Scope::Project => OverlayScope::Project,
    }
}

fn drift_of(kind: Drift) -> DriftKind {
    match kind {
        Drift::Extra => DriftKind::Extra,
        Drift::Missing => DriftKind::Missing,
        Drift::Modified => DriftKind::Modified,
    }
}
