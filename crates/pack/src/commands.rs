//! The public face: one function per command, from plain arguments to a typed payload.
//!
//! CLI and MCP call these and put what they get into envelopes; neither decides anything. Commands that
//! write take `yes`: whether the caller's human or agent said so explicitly.

use serde::{Deserialize, Serialize};

use crate::{
    apply::{HomeLock, Unwatched, Watch, recover},
    confirm,
    credentials::{self, AdoptData, Found, Where},
    deploy::{self, DeployData},
    doctor::{self, Doctor, DoctorData, PlaintextToken},
    envelope::Answer,
    error::{Code, PackError, Result},
    events::{self, RecordData, ScoreData},
    evolve::{self, ProposeData, ProposeOptions, RestoreData, RestoreOptions},
    explain::{self, ExplainPlanData, ExplainStatusData},
    gate::Pending,
    import::{self, ImportData, ImportOptions},
    init::{self, InitData, InitOptions},
    operator::{self, BootstrapData, BootstrapOptions},
    overlay::{
        self, OverlayScope,
        edit::{EditOptions, OverlayEditData, OverlayPathData},
        rebase::{OverlayRebaseData, RebaseOptions},
    },
    plan::{Plan, PlanData, check_adopt},
    policy::{self, AuditData, LintData, PolicyLockData},
    preview::{self, PreviewData},
    remote::{self, RemoteData, SyncData, SyncOptions},
    repo::{self, AddOptions, FetchData, LockData, ModuleData, UpdateData, UpdateOptions},
    rollback::{self, RollbackData, RollbackPreview},
    site::{Request, Site, Surroundings},
    status::{self, DriftKind, StatusData},
};

/// The commands that write, by id, in agentpack's order; what only we have comes last.
pub const MUTATING: &[&str] = &[
    "init",
    "import --apply",
    "add",
    "remove",
    "lock",
    "fetch",
    "update",
    "deploy --apply",
    "rollback",
    "bootstrap",
    "doctor --fix",
    "overlay edit",
    "overlay rebase",
    "remote set",
    "sync",
    "record",
    "evolve propose",
    "evolve restore",
    "policy lock",
    "adopt-secret",
];

/// How `deploy` is asked for.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct DeployOptions {
    /// Write; otherwise only plan.
    pub apply: bool,
    /// Overwrite files that were not deployed.
    pub adopt: bool,
    /// The explicit yes.
    pub yes: bool,
    /// Never write, whatever else is said.
    pub dry_run: bool,
}

/// How `deploy_apply` is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ApplyOptions {
    /// Overwrite files that were not deployed.
    pub adopt: bool,
    /// Never write, whatever else is said.
    pub dry_run: bool,
    /// The explicit yes.
    pub yes: bool,
    /// The token of the reviewed plan.
    pub confirm_token: Option<String>,
}

/// `plan` and `diff`: what a deploy would change.
pub fn plan(surroundings: &Surroundings, request: &Request) -> Result<Answer<PlanData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    Ok(Answer { data: plan.data(&site), warnings: plan.warnings })
}

/// `preview`: the plan, and its diffs when asked for.
pub fn preview(
    surroundings: &Surroundings,
    request: &Request,
    diff: bool,
) -> Result<Answer<PreviewData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    let (data, more) = preview::preview(&site, &plan, diff)?;
    Ok(Answer { data, warnings: plan.warnings.into_iter().chain(more).collect() })
}

/// What a person is asked about before a deploy.
#[derive(Debug)]
pub struct ForReview {
    /// The diffs.
    pub preview: Answer<PreviewData>,
    /// The digest by which [`deploy_reviewed`] knows that plan.
    pub plan_hash: String,
    /// Whether a deploy would write anything; the manifests in roots may be all that it writes.
    pub writes: bool,
}

/// The diffs that a person is asked about before a deploy. Where nothing would be written there is nothing to ask.
pub fn preview_for_review(surroundings: &Surroundings, request: &Request) -> Result<ForReview> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    let request = request.normalized(surroundings);
    let hash = confirm::plan_hash(&site, &request, &plan);
    let (data, more) = preview::preview(&site, &plan, true)?;
    let writes = deploy::writes(&site, &plan)?;
    let preview = Answer { data, warnings: plan.warnings.into_iter().chain(more).collect() };
    Ok(ForReview { preview, plan_hash: hash, writes })
}

/// `status`: drift, all kinds or some.
pub fn status(
    surroundings: &Surroundings,
    request: &Request,
    only: &[DriftKind],
) -> Result<Answer<StatusData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    let (data, more) = status::status(&site, &plan, only)?;
    Ok(Answer { data, warnings: plan.warnings.into_iter().chain(more).collect() })
}

/// `explain plan` and `explain diff`.
pub fn explain_plan(
    surroundings: &Surroundings,
    request: &Request,
) -> Result<Answer<ExplainPlanData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    Ok(Answer { data: explain::plan(&site, &plan), warnings: plan.warnings })
}

/// `explain status`.
pub fn explain_status(
    surroundings: &Surroundings,
    request: &Request,
) -> Result<Answer<ExplainStatusData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    let (status, _) = status::status(&site, &plan, &[])?;
    let mut warnings = plan.warnings.clone();
    warnings.extend(status::without_manifest(&plan));
    Ok(Answer { data: explain::status(&plan, status), warnings })
}

/// `doctor`; to mend it needs a yes.
pub fn doctor(
    surroundings: &Surroundings,
    request: &Request,
    how: Doctor,
    yes: bool,
) -> Result<Answer<DoctorData>> {
    if how == Doctor::Mend {
        confirmed(yes, "doctor --fix")?;
    }
    let site = Site::new(surroundings, request);
    let (data, warnings) = doctor::doctor(&site, how)?;
    Ok(Answer { data, warnings })
}

/// The credentials in the settings of agents and editors, of the user and of the project.
pub fn plaintext_tokens(surroundings: &Surroundings, request: &Request) -> Vec<PlaintextToken> {
    credentials::in_agents_configs(&Site::new(surroundings, request))
}

/// Where a credential stands that is to go into the vault; `at` is a file and a line where there are several.
pub fn find_credential(
    surroundings: &Surroundings,
    request: &Request,
    place: &Where,
    at: Option<(&str, usize)>,
) -> Result<Found> {
    credentials::find(&Site::new(surroundings, request), place, at)
}

/// `adopt-secret`: writes a reference where the credential stood, which the caller has put into the vault.
pub fn adopt_credential(found: &Found, reference: &str, yes: bool) -> Result<Answer<AdoptData>> {
    confirmed(yes, "adopt-secret")?;
    credentials::replace(found, reference)
}

/// `deploy`: plans, and with `apply` carries the plan out.
pub fn deploy(
    surroundings: &Surroundings,
    request: &Request,
    options: DeployOptions,
    watch: &dyn Watch,
) -> Result<Answer<DeployData>> {
    deploy_if(surroundings, request, options, None, watch)
}

/// As [`deploy()`], for a person who has said yes to the plan of this digest, and to no other.
pub fn deploy_reviewed(
    surroundings: &Surroundings,
    request: &Request,
    options: DeployOptions,
    plan_hash: &str,
    watch: &dyn Watch,
) -> Result<Answer<DeployData>> {
    deploy_if(surroundings, request, options, Some(plan_hash), watch)
}

fn deploy_if(
    surroundings: &Surroundings,
    request: &Request,
    options: DeployOptions,
    reviewed: Option<&str>,
    watch: &dyn Watch,
) -> Result<Answer<DeployData>> {
    let site = Site::new(surroundings, request);
    if !options.apply || options.dry_run {
        let plan = Plan::make(&site)?;
        return Ok(Answer { data: DeployData::of(&site, &plan), warnings: plan.warnings });
    }
    confirmed(options.yes, "deploy --apply")?;
    let lock = HomeLock::take(&site)?;
    let recovered = recover(&site, &lock)?;
    let plan = Plan::make(&site)?;
    let request = request.normalized(surroundings);
    let hash = || confirm::plan_hash(&site, &request, &plan);
    if reviewed.is_some_and(|reviewed| reviewed != hash()) {
        return Err(plan_changed("deploy again, and look at what it shows now"));
    }
    check_adopt(&plan.changes, options.adopt)?;
    surroundings.gate.pass(&site, &Pending::deploy(&site, &plan), hash)?;
    let data = deploy::apply(&site, &plan, &lock, watch)?;
    Ok(Answer { data, warnings: recovered.into_iter().chain(plan.warnings).collect() })
}

/// The MCP tool `deploy`: a plan and the token to carry it out with. No token comes with an error.
pub fn deploy_for_review(
    surroundings: &Surroundings,
    request: &Request,
) -> Result<Answer<DeployData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    let mut data = DeployData::of(&site, &plan);
    let request = request.normalized(surroundings);
    let hash = confirm::plan_hash(&site, &request, &plan);
    let issued = confirm::issue(&site, &request, hash)?;
    data.confirm_token = Some(issued.token);
    data.confirm_plan_hash = Some(issued.plan_hash);
    data.confirm_token_expires_at = Some(issued.expires_at);
    Ok(Answer { data, warnings: plan.warnings })
}

/// The MCP tool `deploy_apply`: carries out exactly the plan that the token is for.
pub fn deploy_apply(
    surroundings: &Surroundings,
    request: &Request,
    options: &ApplyOptions,
    watch: &dyn Watch,
) -> Result<Answer<DeployData>> {
    confirmed(options.yes, "deploy --apply")?;
    let site = Site::new(surroundings, request);
    if options.dry_run {
        let plan = Plan::make(&site)?;
        return Ok(Answer { data: DeployData::of(&site, &plan), warnings: plan.warnings });
    }
    let token = options.confirm_token.as_deref();
    if token.is_none_or(str::is_empty) {
        // Said before anything is read: a caller without a token has nothing to wait for.
        confirm::check(&site, None, request, "")?;
    }
    let lock = HomeLock::take(&site)?;
    let recovered = recover(&site, &lock)?;
    let plan = Plan::make(&site)?;
    let request = request.normalized(surroundings);
    let hash = confirm::plan_hash(&site, &request, &plan);
    confirm::check(&site, token, &request, &hash)?;
    check_adopt(&plan.changes, options.adopt)?;
    // While somebody is asked the token stays good; their word is used up before it is.
    surroundings.gate.pass(&site, &Pending::deploy(&site, &plan), || hash.clone())?;
    confirm::take(&site, token)?;
    // The plan in hand is the one whose digest was just compared; there is no other one to apply.
    let data = deploy::apply(&site, &plan, &lock, watch)?;
    Ok(Answer { data, warnings: recovered.into_iter().chain(plan.warnings).collect() })
}

/// `rollback` to a snapshot, or to `before:` a snapshot.
pub fn rollback(
    surroundings: &Surroundings,
    request: &Request,
    to: &str,
    yes: bool,
    watch: &dyn Watch,
) -> Result<Answer<RollbackData>> {
    confirmed(yes, "rollback")?;
    let site = rollback::site_of(Site::new(surroundings, request), to);
    let pass = gate_of(surroundings, request, &site);
    let (data, warnings) = rollback::rollback(&site, to, &pass, watch)?;
    Ok(Answer { data, warnings })
}

/// What a [`rollback`] would change.
pub fn rollback_preview(
    surroundings: &Surroundings,
    request: &Request,
    to: &str,
) -> Result<Answer<RollbackPreview>> {
    let site = rollback::site_of(Site::new(surroundings, request), to);
    let (data, warnings) = rollback::preview(&site, to)?;
    Ok(Answer { data, warnings })
}

/// `evolve propose`: edits of deployed files as overlays on a branch. Without edits it needs no yes.
pub fn evolve_propose(
    surroundings: &Surroundings,
    request: &Request,
    options: &ProposeOptions,
) -> Result<Answer<ProposeData>> {
    let site = Site::new(surroundings, request);
    let plan = Plan::make(&site)?;
    let (data, more) = evolve::propose(&site, &plan, options)?;
    Ok(Answer { data, warnings: plan.warnings.into_iter().chain(more).collect() })
}

/// `evolve restore`: missing files, put back. Without missing files it needs no yes.
pub fn evolve_restore(
    surroundings: &Surroundings,
    request: &Request,
    module_id: Option<&str>,
    dry_run: bool,
    yes: bool,
) -> Result<Answer<RestoreData>> {
    let site = Site::new(surroundings, request);
    let pass = gate_of(surroundings, request, &site);
    let (data, warnings) =
        evolve::restore(&site, module_id, RestoreOptions { dry_run, yes }, &pass)?;
    Ok(Answer { data, warnings })
}

/// `overlay edit`: makes an overlay or adds to one; opening an editor is the caller's.
pub fn overlay_edit(
    surroundings: &Surroundings,
    request: &Request,
    module_id: &str,
    scope: OverlayScope,
    options: EditOptions,
    yes: bool,
) -> Result<Answer<OverlayEditData>> {
    confirmed(yes, "overlay edit")?;
    let site = Site::new(surroundings, request);
    overlay::edit::edit(&site, module_id, scope, options).map(Answer::new)
}

/// `overlay rebase`: an overlay onto the newer upstream.
pub fn overlay_rebase(
    surroundings: &Surroundings,
    request: &Request,
    module_id: &str,
    options: RebaseOptions,
    yes: bool,
) -> Result<Answer<OverlayRebaseData>> {
    confirmed(yes || options.dry_run, "overlay rebase")?;
    let site = Site::new(surroundings, request);
    overlay::rebase::rebase(&site, module_id, options).map(Answer::new)
}

/// `overlay path`: where an overlay is or would be.
pub fn overlay_path(
    surroundings: &Surroundings,
    request: &Request,
    module_id: &str,
    scope: OverlayScope,
) -> Result<Answer<OverlayPathData>> {
    let site = Site::new(surroundings, request);
    overlay::edit::path(&site, module_id, scope).map(Answer::new)
}

/// `init`: a config repo with a manifest that works, and with `bootstrap` what agents that stand in it need to work it.
pub fn init(
    surroundings: &Surroundings,
    request: &Request,
    options: &InitOptions,
    yes: bool,
) -> Result<Answer<InitData>> {
    confirmed(yes, "init")?;
    let site = Site::new(surroundings, request);
    let (mut data, mut warnings) = init::init(&site, options)?;
    if let Some(options) = options.bootstrap {
        // The repo is the project here: its assets go with it wherever it is cloned.
        let surroundings = &Surroundings { cwd: site.repo.clone(), ..surroundings.clone() };
        let request = &Request { repo: Some(site.repo.clone()), ..request.clone() };
        let site = Site::new(surroundings, request);
        let pass = gate_of(surroundings, request, &site);
        let installed = operator::bootstrap(&site, options, &pass, &Unwatched);
        // The config repo stays; a second `init` would refuse it.
        let (installed, more) = installed.map_err(|error| match error.code() {
            Code::ApprovalDenied | Code::ApprovalRequired | Code::ApprovalUnavailable => {
                error.hint("the config repo is made; `agentpack bootstrap --scope project` in it does the rest once a person has allowed it")
            }
            _ => error,
        })?;
        data.bootstrap = Some(installed);
        warnings.extend(more);
    }
    Ok(Answer { data, warnings })
}

/// Whether there is anything to ask a person for `init --guided`: a manifest that is there is never written over.
pub fn guided_init(surroundings: &Surroundings, request: &Request) -> Result<()> {
    init::vacant(&Site::new(surroundings, request))
}

/// `import`: what agents have already, as modules. Without `apply` it only says what it would do.
pub fn import(
    surroundings: &Surroundings,
    request: &Request,
    options: &ImportOptions,
    yes: bool,
) -> Result<Answer<ImportData>> {
    confirmed(yes || !options.apply, "import --apply")?;
    let (data, warnings) = import::import(&Site::new(surroundings, request), options)?;
    Ok(Answer { data, warnings })
}

/// `bootstrap`: the skill and commands with which agents work this program.
pub fn bootstrap(
    surroundings: &Surroundings,
    request: &Request,
    options: BootstrapOptions,
    yes: bool,
    watch: &dyn Watch,
) -> Result<Answer<BootstrapData>> {
    confirmed(yes || options.dry_run, "bootstrap")?;
    let site = Site::new(surroundings, request);
    let pass = gate_of(surroundings, request, &site);
    let (data, warnings) = operator::bootstrap(&site, options, &pass, watch)?;
    Ok(Answer { data, warnings })
}

/// What a person is asked about before a `bootstrap`, and the digest by which [`bootstrap_reviewed`] knows it.
pub fn bootstrap_for_review(
    surroundings: &Surroundings,
    request: &Request,
    options: BootstrapOptions,
) -> Result<(Answer<BootstrapData>, String)> {
    let site = Site::new(surroundings, request);
    let request = request.normalized(surroundings);
    let hash = |pending: &Pending<'_>| confirm::pending_hash(&site, &request, pending);
    let (data, warnings, hash) = operator::review(&site, options, hash)?;
    Ok((Answer { data, warnings }, hash))
}

/// [`bootstrap`] for a person who has said yes to what has this digest, and to nothing else.
pub fn bootstrap_reviewed(
    surroundings: &Surroundings,
    request: &Request,
    options: BootstrapOptions,
    reviewed: &str,
    watch: &dyn Watch,
) -> Result<Answer<BootstrapData>> {
    let site = Site::new(surroundings, request);
    let gate = gate_of(surroundings, request, &site);
    let pass = |pending: &Pending<'_>| {
        if confirm::pending_hash(&site, &request.normalized(surroundings), pending) != reviewed {
            return Err(plan_changed("bootstrap again, and look at what it shows now"));
        }
        gate(pending)
    };
    let (data, warnings) = operator::bootstrap(&site, options, &pass, watch)?;
    Ok(Answer { data, warnings })
}

/// `add`: one more module.
pub fn add(
    surroundings: &Surroundings,
    request: &Request,
    options: &AddOptions,
    yes: bool,
) -> Result<Answer<ModuleData>> {
    confirmed(yes, "add")?;
    let (data, warnings) = repo::add(&Site::new(surroundings, request), options)?;
    Ok(Answer { data, warnings })
}

/// `remove`: one module less.
pub fn remove(
    surroundings: &Surroundings,
    request: &Request,
    id: &str,
    yes: bool,
) -> Result<Answer<ModuleData>> {
    confirmed(yes, "remove")?;
    repo::remove(&Site::new(surroundings, request), id).map(Answer::new)
}

/// `lock`: writes the lockfile.
pub fn lock(surroundings: &Surroundings, request: &Request, yes: bool) -> Result<Answer<LockData>> {
    confirmed(yes, "lock")?;
    let (data, warnings) = repo::lock(&Site::new(surroundings, request))?;
    Ok(Answer { data, warnings })
}

/// `fetch`: brings the locked git modules here.
pub fn fetch(
    surroundings: &Surroundings,
    request: &Request,
    yes: bool,
) -> Result<Answer<FetchData>> {
    confirmed(yes, "fetch")?;
    repo::fetch(&Site::new(surroundings, request)).map(Answer::new)
}

/// `update`: lock where needed, then fetch.
pub fn update(
    surroundings: &Surroundings,
    request: &Request,
    options: UpdateOptions,
    yes: bool,
) -> Result<Answer<UpdateData>> {
    confirmed(yes, "update")?;
    let (data, warnings) = repo::update(&Site::new(surroundings, request), options)?;
    Ok(Answer { data, warnings })
}

/// `record`: one event of an agent, as JSON.
pub fn record(
    surroundings: &Surroundings,
    request: &Request,
    event: &str,
    yes: bool,
) -> Result<Answer<RecordData>> {
    confirmed(yes, "record")?;
    events::record(&Site::new(surroundings, request), event).map(Answer::new)
}

/// `score`: modules by how often they failed.
pub fn score(surroundings: &Surroundings, request: &Request) -> Result<Answer<ScoreData>> {
    let (data, warnings) = events::score(&Site::new(surroundings, request))?;
    Ok(Answer { data, warnings })
}

/// `remote set`: where the config repo is pushed to.
pub fn remote_set(
    surroundings: &Surroundings,
    request: &Request,
    name: &str,
    url: &str,
    yes: bool,
) -> Result<Answer<RemoteData>> {
    confirmed(yes, "remote set")?;
    remote::set(&Site::new(surroundings, request), name, url).map(Answer::new)
}

/// `sync`: pull, then push.
pub fn sync(
    surroundings: &Surroundings,
    request: &Request,
    options: &SyncOptions,
    yes: bool,
) -> Result<Answer<SyncData>> {
    confirmed(yes, "sync")?;
    remote::sync(&Site::new(surroundings, request), options).map(Answer::new)
}

/// `policy lint`: what the config repo does against its policy. Anything it does is an error.
pub fn policy_lint(surroundings: &Surroundings, request: &Request) -> Result<Answer<LintData>> {
    let (data, warnings) = policy::lint(&Site::new(surroundings, request))?;
    Ok(Answer { data, warnings })
}

/// `policy lock`: pins the policy pack.
pub fn policy_lock(
    surroundings: &Surroundings,
    request: &Request,
    yes: bool,
) -> Result<Answer<PolicyLockData>> {
    confirmed(yes, "policy lock")?;
    policy::lock(&Site::new(surroundings, request)).map(Answer::new)
}

/// `policy audit`: what the lockfiles hold, and what the last commit changed in them.
pub fn policy_audit(surroundings: &Surroundings, request: &Request) -> Result<Answer<AuditData>> {
    let (data, warnings) = policy::audit(&Site::new(surroundings, request))?;
    Ok(Answer { data, warnings })
}

/// The caller's gate for a command that writes into targets and has no confirm token.
fn gate_of<'g>(
    surroundings: &'g Surroundings,
    request: &'g Request,
    site: &'g Site,
) -> impl Fn(&Pending<'_>) -> Result<()> + 'g {
    move |pending| {
        let hash = || confirm::pending_hash(site, &request.normalized(surroundings), pending);
        surroundings.gate.pass_command(site, pending, hash)
    }
}

fn plan_changed(hint: &'static str) -> PackError {
    let message = "the plan is not the one that was shown any more; nothing was written";
    PackError::new(Code::PlanChanged, message).hint(hint)
}

/// Refuses a command that writes without an explicit yes.
pub fn confirmed(yes: bool, command: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    Err(PackError::new(
        Code::ConfirmRequired,
        format!("`{command}` writes, and needs an explicit yes"),
    )
    .with("command", command)
    .hint("review what it would do, then add --yes (or yes: true)"))
}
