//! Whether a service takes a secret's value: one request of the token catalog's, under a permit.
//!
//! What is asked, the catalog says; where a value may go, its owner has said. A check that would lead elsewhere is
//! none, so no catalog, a project's least of all, brings a value to a host of its own. Over verified TLS on
//! port 443, from public addresses alone, and no redirect is followed. It is on record before it begins.
//! Source: reference/secrets.md, 9.3 and 18 (gaps 4 and 15).

mod checked;
mod plan;
mod record;
mod request;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::{
    Authority, CheckBy, Code, Error, SafeText, SecretPath, SecretValue, audit::Agent, decide_check,
};
use keyless_egress::{Client, Released};
use keyless_store::AuditLog;
use keyless_vault::{Metadata, Moment, Providers, Secret, Variant, Vault};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

pub use self::checked::{Checked, LivenessVerdict};
use self::{
    checked::{answered, unsupported},
    plan::{Plan, plan, plan_for_agent},
    record::Record,
    request::{Credential, headers, send, target},
};
use crate::{
    agreed::{self, AgreedBy, AgreedConfig, AgreedWindow},
    broker::agent,
    config::Config,
    egress_door::engine_config,
    permits::uptime,
    places::Places,
    providers::providers,
};

/// How long an agent is told the same again.
const AGENTS_PACE: Duration = Duration::from_mins(1);

/// `[liveness]` of config.toml.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LivenessConfig {
    /// Whether a value's service is asked before the value is saved.
    pub on_save: bool,
}

/// Asks services about values, by the catalog and the configuration as they are at that moment.
pub(crate) struct LivenessChecks {
    places: Places,
    log: AuditLog,
    /// What agents were told. Each secret's is held while its service is asked, and no other's.
    told: Mutex<HashMap<SecretPath, Arc<Turn>>>,
}

/// What agents were last told of a secret: the version, when, and the answer.
type Turn = AsyncMutex<Option<(Option<u32>, Moment, LivenessVerdict)>>;

/// The party that asks whether a value works.
pub(crate) struct Asker<'a> {
    vault: &'a Vault,
    who: Agent,
    /// The user of the service that the value belongs to, for services that want to be told.
    user: Option<&'a str>,
}

impl<'a> Asker<'a> {
    /// The operator, at the vault.
    pub(crate) fn operator(vault: &'a Vault) -> Self {
        Self { vault, who: agent("operator", "operator"), user: None }
    }

    /// This asker, of a value that belongs to `user` at the service.
    pub(crate) fn of_user(self, user: Option<&'a str>) -> Self {
        Self { user, ..self }
    }
}

impl LivenessChecks {
    /// Checks by what is in force at these places.
    pub(crate) fn new(places: &Places, log: AuditLog) -> Self {
        Self { places: places.clone(), log, told: Mutex::default() }
    }

    /// Asks the service of a value whose secret is described by `metadata`. Fails when the log, the configuration
    /// or the list of catalogs can't be used; whatever the service does is an answer.
    pub(crate) async fn check(
        &self,
        metadata: &Metadata,
        value: SecretValue,
        asker: Asker<'_>,
    ) -> Result<Checked, Error> {
        let (known, config) = self.in_force(asker.vault).await?;
        match plan(&known, value.path(), metadata, asker.user) {
            Ok(plan) => self.carry_out(plan, &config, value, asker).await,
            Err(why) => Ok(unsupported(None, why)),
        }
    }

    /// As [`LivenessChecks::check`] for a value before it is saved, where the operator wants that.
    pub(crate) async fn check_on_save(
        &self,
        metadata: &Metadata,
        value: SecretValue,
        vault: &Vault,
    ) -> Result<Option<Checked>, Error> {
        if !self.in_force(vault).await?.1.liveness.on_save {
            return Ok(None);
        }
        self.check(metadata, value, Asker::operator(vault)).await.map(Some)
    }

    /// As [`LivenessChecks::check`] for a stored value and an agent, whose check is a request that the secret's rules
    /// have to allow: [`Code::RuleDenied`] or [`Code::ApprovalRequired`] where they don't. It is told the same again
    /// for a minute: it can't have a service asked in a loop.
    pub(crate) async fn check_for_agent(
        &self,
        vault: &Vault,
        secret: &Secret,
        session: &str,
    ) -> Result<LivenessVerdict, Error> {
        let (known, config) = self.in_force(vault).await?;
        let Some(plan) = plan_for_agent(&known, &secret.path, &secret.metadata)? else {
            return Ok(LivenessVerdict::Unsupported);
        };
        let turn = self.turn(&secret.path);
        let mut told = turn.lock().await;
        if let Some((version, when, verdict)) = *told
            && version == secret.version
            && when.elapsed() < AGENTS_PACE
        {
            return Ok(verdict);
        }
        let value = vault.open(&secret.path).await?.value;
        let asker = Asker { vault, who: agent("mcp", session), user: None };
        let checked = self.carry_out(plan, &config, value, asker).await?;
        *told = Some((secret.version, Moment::now(), checked.verdict));
        Ok(checked.verdict)
    }

    fn turn(&self, path: &SecretPath) -> Arc<Turn> {
        Arc::clone(self.told.lock().entry(path.clone()).or_default())
    }

    /// Whether the catalog in force has a pattern of this name.
    pub(crate) async fn knows_pattern(&self, vault: &Vault, id: &str) -> Result<bool, Error> {
        Ok(self.of_pattern(vault, id, |_| ()).await?.is_some())
    }

    /// What a value of this pattern looks like, where the catalog knows.
    pub(crate) async fn format_of(&self, vault: &Vault, id: &str) -> Result<Option<String>, Error> {
        let format = |variant: &Variant| variant.format_regex.clone();
        Ok(self.of_pattern(vault, id, format).await?.flatten())
    }

    /// What is in force of a pattern; nothing where nobody knows it.
    async fn of_pattern<T: Send + 'static>(
        &self,
        vault: &Vault,
        id: &str,
        tell: impl Fn(&Variant) -> T + Send + 'static,
    ) -> Result<Option<T>, Error> {
        static BUNDLED: LazyLock<Providers> = LazyLock::new(Providers::bundled);
        // To read all of it takes longer than the rest of an answer, and most homes add nothing that takes a pattern away.
        let (places, id, voucher) = (self.places.clone(), id.to_owned(), vault.agreement_voucher());
        let look = move || {
            let added = [places.catalog_folder(), places.catalog_sources_file()];
            if let Some((_, variant)) = BUNDLED.variant(&id)
                && !added.iter().any(|place| place.exists())
            {
                return Ok(Some(tell(variant)));
            }
            Ok(providers(&places, AgreedBy::Vault(&voucher))?
                .variant(&id)
                .map(|(_, variant)| tell(variant)))
        };
        spawn_blocking(look).await.map_err(|_| Error::from(Code::Internal))?
    }

    async fn in_force(&self, vault: &Vault) -> Result<(Providers, AgreedConfig), Error> {
        let (places, voucher) = (self.places.clone(), vault.agreement_voucher());
        let window = AgreedWindow::of(vault).await?;
        let read = move || {
            let config = Config::load(&places.config_file())?;
            let config = agreed::check(&places, &voucher, window, config)?;
            Ok((providers(&places, AgreedBy::Vault(&voucher))?, config))
        };
        spawn_blocking(read).await.map_err(|_| Error::from(Code::Internal))?
    }

    async fn carry_out(
        &self,
        plan: Plan,
        config: &Config,
        value: SecretValue,
        asker: Asker<'_>,
    ) -> Result<Checked, Error> {
        let Plan { pattern, liveness, authority, allowed, user, key_id } = plan;
        let client = Client::new(engine_config(config, None)?).map_err(|_| Code::ConfigInvalid)?;
        let mut record =
            Record::new(&self.log, asker.who, &authority, &liveness, target(&liveness.url));
        let key_id = match key_id {
            None => None,
            Some(path) => Some(key_id_of(asker.vault, &path, &authority, &mut record).await?),
        };
        let released = Released::new(value, record.begin(allowed).await?, uptime);
        let now = Timestamp::now();
        let credential = Credential {
            value: released.open_toward(&authority)?,
            user: user.as_deref(),
            key_id: key_id.as_ref().map(|key_id| key_id.open_toward(&authority)).transpose()?,
        };
        let checked = match headers(&liveness, &credential, now) {
            None => unsupported(Some(pattern), "the value is no text, which a header needs".into()),
            Some(headers) => {
                let sent = send(&client, &liveness, &authority, &headers).await;
                answered(pattern, &authority, sent, &liveness)
            }
        };
        record.end(&checked).await?;
        Ok(checked)
    }
}

/// The id that stands beside a signature. Its owner lets it go to the same host, or there is no check.
async fn key_id_of(
    vault: &Vault,
    path: &SecretPath,
    authority: &Authority,
    record: &mut Record<'_>,
) -> Result<Released, Error> {
    let rule = vault.show(path).await?.metadata.egress;
    let allowed = rule.and_then(|rule| decide_check(path, &rule, authority, CheckBy::Value));
    let allowed = allowed.ok_or_else(|| {
        let words = SafeText::default().and(path).and(" may not go to the host of the check");
        Error::with(Code::ForeignDestination, words)
    })?;
    let value = vault.open(path).await?.value;
    Ok(Released::new(value, record.begin(allowed).await?, uptime))
}
