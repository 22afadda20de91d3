//! Env-only mode, for CI and machines without a person: values come from the environment and from nowhere else.
//!
//! There is no store, no broker and nobody to ask. A session's secrets are those that the project declares, its values
//! are variables, and where each may go is said by the catalog or the operator's environment, never by the repository;
//! nor does the repository choose which variable a value is taken from. What the environment has under no name is looked
//! for in the file that `KEYLESS_SECRETS_FILE` names, under the same. What a person would have to allow is refused.
//! The session stands on a store of its own that ends with it. Source: reference/secrets.md, 15.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use keyless_core::{
    ApproveOnUse, Code, Destination, EgressRule, Error, SafeText, SecretPath, SecretValue,
};
use keyless_vault::{
    EnvMeaning, EnvName, IndexFile, Inventory, KEYLESS_SECRETS_FILE, Manifest, Metadata,
    Passphrase, Provider, Providers, Row, SecretsFile, SourceConfig, Variant, Vault,
    variables_with_value,
};
use tempfile::TempDir;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{
    agreed::AgreedBy,
    broker::{Broker, OpenSession, Wanted, open_bare_session},
    caution::{self, Caution},
    config::Config,
    egress_door::EgressDoor,
    environment::inherited,
    log_keeping::annotate,
    operator::{self, Operator},
    places::{Places, unusable},
    providers::providers,
};

/// Anything but nothing, `0`, `false`, `no` and `off`: values come from the environment alone, and nobody is asked.
const KEYLESS_CI: &str = "KEYLESS_CI";
/// Followed by a path as in `KEYLESS_SECRET__TEAM__API__TOKEN`: the value.
const KEYLESS_SECRET: &str = "KEYLESS_SECRET__";
/// Followed by a path in the same way: hosts that may receive the value, apart by commas.
const KEYLESS_SECRET_TO: &str = "KEYLESS_SECRET_TO__";
/// Memory, where a machine has it: nothing of the session's store is written to a disk.
const MEMORY: &str = "/dev/shm";

static TURNED_ON: OnceLock<()> = OnceLock::new();

/// Turns env-only mode on for this process, as `--ci` does.
pub fn turn_on() {
    let _ = TURNED_ON.set(());
}

/// Whether env-only mode is on: by `--ci`, or by `KEYLESS_CI`. Variables of services that run jobs do not count.
pub fn is_on() -> bool {
    TURNED_ON.get().is_some() || env::var(KEYLESS_CI).is_ok_and(|word| says_yes(&word))
}

fn says_yes(word: &str) -> bool {
    !matches!(word.trim().to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
}

/// What helps with an error in env-only mode, where the store and a person's word are not to be had.
pub fn next_step(code: Code) -> &'static str {
    match code {
        Code::ApprovalRequired => {
            "leave that secret out of the job, or run it where a person can answer"
        }
        Code::SessionUnfit => {
            "mend what is named above: a job has what .keyless/secrets.toml declares, or what --secret PATH names"
        }
        code => code.remediation().action,
    }
}

/// That a command needs what there is not in env-only mode.
pub fn refusal() -> Error {
    Error::new(Code::NotAvailableInCi)
}

/// A session over the environment, and the home of its store, which is gone when dropped.
pub struct CiSession {
    /// The session.
    pub session: OpenSession,
    /// Its home, which the command must not see.
    pub home: TempDir,
}

/// Opens a session for what is wanted, by the text of the project's manifest.
///
/// Fails with [`Code::VariableMissing`] that names every variable that would have done, [`Code::ApprovalRequired`] for a
/// secret that takes a person, [`Code::SessionUnfit`] for one that may go nowhere, [`Code::ValueRefused`] for a value
/// that no request could carry.
pub async fn open_session(
    places: &Places,
    config: &Config,
    wanted: &Wanted,
    manifest: Option<&str>,
) -> Result<CiSession, Error> {
    let door = EgressDoor::new(config)?;
    let home = make_home()?;
    let temporary = Places::below(home.path());
    if *wanted == Wanted::Nothing {
        let session = open_bare_session(&temporary, door, config).await?;
        return Ok(CiSession { session, home });
    }
    let declared = Declared::read(places, manifest)?;
    let chosen = declared.choose(wanted, &|name| is_set(name))?;
    let store = operator::create_store(&temporary).await?;
    let passphrase = Zeroizing::new(format!("{}{}", Uuid::new_v4(), Uuid::new_v4()));
    let (vault, _) = Vault::create(store, Passphrase::new(passphrase)).await?;
    let log = operator::audit_log(&vault);
    annotate(vault.store(), config);
    let vault = Arc::new(vault);
    let hands = Operator::with_log(Arc::clone(&vault), log.clone());
    let mut paths = Vec::with_capacity(chosen.len());
    for (path, mut metadata) in chosen {
        declared.look_alike(&mut metadata);
        hands.add(&path, metadata, None).await?;
        paths.push(path);
    }
    let (wanted, all) = (Wanted::These(paths), inherited());
    let broker = Broker::asking_at_least(ApproveOnUse::Never, door, vault, log);
    let session = broker.open_session(&wanted, &all, Caution::default()).await?;
    Ok(CiSession { session, home })
}

fn make_home() -> Result<TempDir, Error> {
    let name = || {
        let mut name = tempfile::Builder::new();
        name.prefix("keyless-ci-");
        name
    };
    let made = match fs::metadata(MEMORY) {
        Ok(_) => name().tempdir_in(MEMORY).or_else(|_| name().tempdir()),
        Err(_) => name().tempdir(),
    };
    made.map_err(|error| unusable(&env::temp_dir(), &error))
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// What the project declares, and what the operator's files know of it.
struct Declared {
    manifest: Manifest,
    index: IndexFile,
    providers: Providers,
    /// What stands in the file that `KEYLESS_SECRETS_FILE` names, which is looked at after the environment.
    in_file: BTreeMap<String, Zeroizing<String>>,
    /// The least that every secret asks for.
    floor: ApproveOnUse,
}

impl Declared {
    fn read(places: &Places, manifest: Option<&str>) -> Result<Self, Error> {
        let manifest = manifest.map_or(Ok(Manifest::default()), caution::parse)?;
        let index = IndexFile::load(&places.index_file())?;
        let floor = Config::load(&places.config_file())?.unlock.window(None)?.floor;
        let providers = providers(places, AgreedBy::Environment)?;
        Ok(Self { manifest, index, providers, in_file: in_file()?, floor })
    }

    /// The secrets that are wanted, with what the session's store is told of them.
    fn choose(
        &self,
        wanted: &Wanted,
        is_set: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(SecretPath, Metadata)>, Error> {
        let mut manifest = self.manifest.clone();
        let named = match wanted {
            Wanted::These(paths) => {
                // What the operator and the project say of a secret counts for one that is not declared, too.
                manifest.optional.extend(paths.iter().cloned());
                paths.iter().cloned().map(|path| (path, true)).collect()
            }
            Wanted::All => self.declared()?,
            Wanted::Nothing => Vec::new(),
        };
        let inventory = Inventory::merge(&manifest, &self.index, &[]);
        let (mut chosen, mut missing) = (Vec::new(), Vec::new());
        for (path, required) in named {
            // Everything that is wanted is in the manifest by now.
            let Some(row) = inventory.rows.get(&path) else { continue };
            match self.metadata(&path, row, is_set)? {
                Ok(metadata) => chosen.push((path, metadata)),
                Err(tried) if required => missing.push((path, tried)),
                Err(_) => {}
            }
        }
        if missing.is_empty() { Ok(chosen) } else { Err(without_value(&missing)) }
    }

    fn declared(&self) -> Result<Vec<(SecretPath, bool)>, Error> {
        let Manifest { required, optional, .. } = &self.manifest;
        let all: BTreeSet<&SecretPath> = required.union(optional).collect();
        if all.is_empty() {
            let words = "the project declares no secrets (.keyless/secrets.toml), and none is named with --secret";
            return Err(Error::with(Code::SessionUnfit, SafeText::words(words)));
        }
        Ok(all.into_iter().map(|path| (path.clone(), required.contains(path))).collect())
    }

    /// See [`unread_variables`].
    fn unread(&self, wanted: &Wanted, set: impl Iterator<Item = String>) -> Vec<UnreadVariable> {
        let Manifest { required, optional, .. } = &self.manifest;
        let named = match wanted {
            Wanted::These(paths) => &paths[..],
            Wanted::All | Wanted::Nothing => &[],
        };
        let paths = required.iter().chain(optional).chain(self.index.secrets.keys()).chain(named);
        let paths: BTreeSet<&SecretPath> = paths.collect();
        let read: Vec<String> = paths
            .iter()
            .flat_map(|path| {
                [KEYLESS_SECRET, KEYLESS_SECRET_TO].map(|of| of.to_owned() + &tail(path))
            })
            .collect();
        let own = self.index.secrets.values().filter_map(|entry| entry.env.as_ref());
        let own: BTreeSet<&str> = own.map(EnvName::as_str).collect();
        let is_unread = |name: &String| {
            let is_meant = name.starts_with("KEYLESS_SECRET") && name != KEYLESS_SECRETS_FILE;
            is_meant && !read.contains(name) && !own.contains(&**name)
        };
        let unread: BTreeSet<String> = set.filter(is_unread).collect();
        unread.into_iter().map(|name| UnreadVariable { name, read: read.clone() }).collect()
    }

    /// What is known of one secret; else the variables that would have had its value.
    fn metadata(
        &self,
        path: &SecretPath,
        row: &Row,
        is_set: &dyn Fn(&str) -> bool,
    ) -> Result<Result<Metadata, Vec<String>>, Error> {
        let tried = self.variables(path, row);
        let found = tried.iter().find(|name| is_set(name));
        let found = found.or_else(|| tried.iter().find(|name| self.in_file.contains_key(*name)));
        let Some(found) = found else { return Ok(Err(tried)) };
        if row.approve_on_use.tightened_by(self.floor) != ApproveOnUse::Never {
            let words =
                SafeText::default().and(path).and(" takes a person's word, and there is none");
            return Err(Error::with(Code::ApprovalRequired, words));
        }
        let variant = self.known(path, row).map(|(_, variant)| variant);
        let env = row.env.clone().or_else(|| variant.and_then(|variant| variant.env_var.clone()));
        let variable = EnvName::parse(found).map_err(|_| Error::new(Code::Usage))?;
        let metadata =
            Metadata { env, source: SourceConfig::Env { variable }, ..Metadata::default() };
        let mut metadata = variant.map_or(metadata.clone(), |variant| variant.complete(metadata));
        if let Some(to) = destinations(path)? {
            metadata.egress = Some(EgressRule {
                to: to.clone(),
                ..metadata.egress.unwrap_or(EgressRule::to(to))
            });
        }
        if metadata.egress.is_none() {
            let words = SafeText::default().and(path).and(" may go nowhere: set ");
            let words = words.as_they_wrote(&format!("{KEYLESS_SECRET_TO}{}", tail(path)));
            let words = words.and(" to the hosts that may receive it");
            return Err(Error::with(Code::SessionUnfit, words));
        }
        self.refuse_unusable(path, found, &metadata)?;
        // The format of a job's token is its service's affair.
        metadata.upkeep.format_regex = None;
        metadata.upkeep.pattern_id = None;
        Ok(Ok(metadata))
    }

    /// Refuses a value that would fail each use, while it can still be said to whoever set it.
    fn refuse_unusable(
        &self,
        path: &SecretPath,
        variable: &str,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let Some(mut value) = self.value_of(variable) else { return Ok(()) };
        let bytes = std::mem::take(&mut *value).into_bytes();
        SecretValue::new(path.clone(), bytes, metadata.binding()).map(drop).map_err(|why| {
            let words = SafeText::default().and(path).and(": what ").as_they_wrote(variable);
            Error::with(Code::ValueRefused, words.and(" has is no value for it: ").and(why))
        })
    }

    /// Gives the placeholder the form that the value has, where a service has several: a client that checks it sees no other.
    fn look_alike(&self, metadata: &mut Metadata) {
        let SourceConfig::Env { variable } = &metadata.source else { return };
        let Some(value) = self.value_of(variable.as_str()) else { return };
        if let Some((_, variant)) = self.providers.of_value(value.trim().as_bytes()) {
            metadata.placeholder = variant.complete(Metadata::default()).placeholder;
        }
    }

    /// What the environment has under a name, or the file after it.
    fn value_of(&self, name: &str) -> Option<Zeroizing<String>> {
        let set = env::var(name).ok().filter(|value| !value.is_empty()).map(Zeroizing::new);
        set.or_else(|| self.in_file.get(name).cloned())
    }

    /// What the catalog knows of a secret, if that is one token and no other.
    fn known(&self, path: &SecretPath, row: &Row) -> Option<(&Provider, &Variant)> {
        let index = self.index.secrets.get(path);
        let pattern = index.and_then(|entry| entry.upkeep.pattern_id.as_deref());
        let variable = row.env.as_ref().map(EnvName::as_str);
        self.providers.of_secret_alone(path, pattern, variable)
    }

    /// Where a value is looked for, first to last: as the operator's index says, under the path's own variable, and under the
    /// names that the catalog knows for its service; the project's name for it only if that is one of them.
    fn variables(&self, path: &SecretPath, row: &Row) -> Vec<String> {
        let index = self.index.secrets.get(path);
        let mut names: Vec<String> = index
            .and_then(|entry| entry.env.as_ref())
            .map(ToString::to_string)
            .into_iter()
            .collect();
        names.push(format!("{KEYLESS_SECRET}{}", tail(path)));
        if let Some((provider, variant)) = self.known(path, row) {
            let projects = row.env.as_ref().map(ToString::to_string);
            let is_its = |name: &String| {
                let meaning = self.providers.of_variable(name);
                matches!(meaning, Some(EnvMeaning::Token(its, _, _)) if its.provider_id == provider.provider_id)
            };
            names.extend(projects.filter(is_its));
            names.extend(variant.env_var.as_ref().map(ToString::to_string));
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }
}

fn in_file() -> Result<BTreeMap<String, Zeroizing<String>>, Error> {
    let Some(file) = SecretsFile::named() else { return Ok(BTreeMap::new()) };
    let mut read = file.read()?;
    let named: BTreeSet<String> = variables_with_value(&read).map(str::to_owned).collect();
    // Of one name the last counts.
    let all = read.assignments.drain(..).map(|one| (one.name, one.value));
    Ok(all.filter(|(name, _)| named.contains(name)).collect())
}

/// A variable that is meant for env-only mode, and that nothing reads.
#[derive(Debug, PartialEq, Eq)]
pub struct UnreadVariable {
    /// Its name.
    pub name: String,
    /// Names of its kind that are read.
    pub read: Vec<String>,
}

/// The variables of the environment, and of the file that it names, that look like a secret's and are none's: neither of
/// one that is wanted, declared or in the operator's index. Faults of what is read here are `open_session`'s to tell.
pub fn unread_variables(
    places: &Places,
    wanted: &Wanted,
    manifest: Option<&str>,
) -> Vec<UnreadVariable> {
    // Where none are asked for none are missed.
    if *wanted == Wanted::Nothing {
        return Vec::new();
    }
    let Ok(declared) = Declared::read(places, manifest) else { return Vec::new() };
    let set = env::vars_os().filter(|(_, value)| !value.is_empty());
    let set = set.filter_map(|(name, _)| name.into_string().ok());
    declared.unread(wanted, set.chain(declared.in_file.keys().cloned()))
}

/// `team/api/token` as `TEAM__API__TOKEN`.
fn tail(path: &SecretPath) -> String {
    path.as_str().to_ascii_uppercase().replace('-', "_").replace('/', "__")
}

fn destinations(path: &SecretPath) -> Result<Option<Vec<Destination>>, Error> {
    let name = format!("{KEYLESS_SECRET_TO}{}", tail(path));
    let Ok(text) = env::var(&name) else { return Ok(None) };
    let read = |word: &str| {
        word.trim().parse::<Destination>().map_err(|error| {
            let words = SafeText::default()
                .as_they_wrote(&name)
                .and(": ")
                .as_they_wrote(&error.to_string());
            Error::with(Code::SessionUnfit, words)
        })
    };
    text.split(',').map(read).collect::<Result<_, _>>().map(Some)
}

fn without_value(missing: &[(SecretPath, Vec<String>)]) -> Error {
    let mut words = SafeText::words("no value for ");
    for (number, (path, tried)) in missing.iter().enumerate() {
        words = if number == 0 { words } else { words.and("; for ") };
        words = words.and(path).and(": set ").as_they_wrote(&tried.join(" or "));
    }
    if let Some(file) = SecretsFile::named() {
        words = words.and(", here or in the file ");
        words = words.as_they_wrote(&file.place().to_string_lossy());
    }
    Error::with(Code::VariableMissing, words)
}

/// How many of the secrets of the project that `folder` lies in have a value; fails as a session would.
pub fn report(places: &Places, folder: &Path) -> Result<usize, Error> {
    let manifest = caution::manifest_of(folder)?;
    let declared = Declared::read(places, manifest.as_deref())?;
    declared.choose(&Wanted::All, &|name| is_set(name)).map(|chosen| chosen.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(manifest: &str, index: &str) -> Declared {
        let manifest = Manifest::parse(manifest).unwrap();
        let index = IndexFile::parse(index).unwrap();
        let floor = ApproveOnUse::Never;
        Declared {
            manifest,
            index,
            providers: Providers::bundled(),
            in_file: BTreeMap::new(),
            floor,
        }
    }

    fn chosen(declared: &Declared, set: &[&str]) -> Result<Vec<(String, String)>, String> {
        let source = |metadata: &Metadata| match &metadata.source {
            SourceConfig::Env { variable } => variable.to_string(),
            _ => String::new(),
        };
        let chosen = declared.choose(&Wanted::All, &|name| set.contains(&name));
        let chosen = chosen.map_err(|error| error.message())?;
        Ok(chosen.iter().map(|(path, metadata)| (path.to_string(), source(metadata))).collect())
    }

    #[test]
    fn values_are_looked_for_where_the_operator_and_the_catalog_say() {
        let both =
            declared("required = [\"team/github/token\"]\noptional = [\"team/openai/key\"]", "");
        let pair = |path: &str, name: &str| (path.to_owned(), name.to_owned());
        assert_eq!(
            chosen(&both, &["GITHUB_TOKEN"]),
            Ok(vec![pair("team/github/token", "GITHUB_TOKEN")])
        );
        let own = "KEYLESS_SECRET__TEAM__GITHUB__TOKEN";
        assert_eq!(chosen(&both, &["GITHUB_TOKEN", own]), Ok(vec![pair("team/github/token", own)]));
        let error = chosen(&both, &[]).unwrap_err();
        assert!(error.contains(own) && error.contains("GITHUB_TOKEN"), "{error}");
        assert!(!error.contains("openai"), "{error}");
    }

    /// A service may issue several tokens, and each is taken from its own variable.
    #[test]
    fn a_secret_never_gets_another_token_of_its_service() {
        let all = [
            ("datadog", &["DD_API_KEY", "DD_APP_KEY"][..]),
            ("slack", &["SLACK_BOT_TOKEN", "SLACK_USER_TOKEN", "SLACK_APP_TOKEN"]),
            ("twilio", &["TWILIO_AUTH_TOKEN", "TWILIO_API_SECRET"]),
        ];
        for (service, variables) in all {
            for variable in variables {
                let manifest = format!(
                    "required = [\"team/{service}/main\"]\n[secret.\"team/{service}/main\"]\nenv_var = \"{variable}\""
                );
                let path = format!("team/{service}/main");
                let taken = chosen(&declared(&manifest, ""), variables);
                assert_eq!(taken, Ok(vec![(path, (*variable).to_owned())]));
            }
            // Nothing says which.
            let open = declared(&format!("required = [\"team/{service}/main\"]"), "");
            assert!(chosen(&open, variables).unwrap_err().contains("KEYLESS_SECRET__TEAM"));
        }
        for (path, variable) in [
            ("team/datadog/app-key", "DD_APP_KEY"),
            ("team/slack/app-token", "SLACK_APP_TOKEN"),
            ("team/twilio/api-secret", "TWILIO_API_SECRET"),
        ] {
            let named = declared(&format!("required = [\"{path}\"]"), "");
            let set: Vec<&str> = all.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            let taken = chosen(&named, &set);
            assert_eq!(taken, Ok(vec![(path.to_owned(), variable.to_owned())]));
        }
    }

    #[test]
    fn a_variable_of_no_secret_is_unread() {
        let index = "[secret.\"team/acme/key\"]\nenv_var = \"KEYLESS_SECRET_OF_ACME\"";
        let known = declared("required = [\"team/github/token\"]", index);
        let unread = |wanted: &Wanted, set: &[&str]| -> Vec<String> {
            let unread = known.unread(wanted, set.iter().map(|&name| name.to_owned()));
            unread.into_iter().map(|one| one.name).collect()
        };
        let fine = [
            "GITHUB_TOKE",
            "KEYLESS_SECRETS_FILE",
            "KEYLESS_SECRET_OF_ACME",
            "KEYLESS_SECRET_TO__TEAM__GITHUB__TOKEN",
            "KEYLESS_SECRET__TEAM__ACME__KEY",
            "KEYLESS_SECRET__TEAM__GITHUB__TOKEN",
        ];
        assert_eq!(unread(&Wanted::All, &fine), [""; 0]);
        let slips = [
            "KEYLESS_SECRETS__TEAM__GITHUB__TOKEN",
            "KEYLESS_SECRET_TEAM_GITHUB_TOKEN",
            "KEYLESS_SECRET_TO__TEAM__GITHUB__TOKN",
            "KEYLESS_SECRET__TEAM__OTHER__KEY",
        ];
        assert_eq!(unread(&Wanted::All, &slips), slips);
        let other = Wanted::These(vec![SecretPath::parse("team/other/key").unwrap()]);
        assert_eq!(unread(&other, &slips), slips[..3]);
    }

    #[test]
    fn a_repository_chooses_neither_the_variable_nor_the_host() {
        let manifest = "required = [\"team/openai/key\"]\n[secret.\"team/openai/key\"]\nenv_var = \"GITHUB_TOKEN\"\n\
                        pattern_id = \"github-pat\"";
        let tricked = declared(manifest, "");
        assert!(chosen(&tricked, &["GITHUB_TOKEN"]).is_err());
        let unknown = declared(
            "required = [\"team/acme/key\"]",
            "[secret.\"team/acme/key\"]\nenv_var = \"ACME_KEY\"",
        );
        let error = chosen(&unknown, &["ACME_KEY"]).unwrap_err();
        assert!(error.contains("KEYLESS_SECRET_TO__TEAM__ACME__KEY"), "{error}");
    }

    #[test]
    fn what_takes_a_person_is_refused() {
        let gated = declared(
            "required = [\"team/github/token\"]\n[overrides.\"team/github/token\"]\napprove_on_use = \"session\"",
            "",
        );
        assert!(chosen(&gated, &["GITHUB_TOKEN"]).unwrap_err().contains("takes a person's word"));
        assert!(chosen(&declared("", ""), &[]).is_err());
    }

    /// A secret that is named is as careful as one that is declared; one that is only named is not declared.
    #[test]
    fn what_takes_a_person_is_refused_where_the_project_does_not_declare_it() {
        let path = SecretPath::parse("team/github/token").unwrap();
        let named = |manifest: &str, index: &str, floor| {
            let known = Declared { floor, ..declared(manifest, index) };
            let wanted = Wanted::These(vec![path.clone()]);
            let chosen = known.choose(&wanted, &|name| name == "GITHUB_TOKEN");
            chosen.map(|chosen| chosen.len()).map_err(|error| error.code())
        };
        let says = |section: &str, word: &str| {
            format!("[{section}.\"team/github/token\"]\napprove_on_use = \"{word}\"")
        };
        let refused = Err(Code::ApprovalRequired);
        let never = ApproveOnUse::Never;
        assert_eq!(named("", "", never), Ok(1));
        assert_eq!(named("", &says("secret", "per-call"), never), refused);
        assert_eq!(named(&says("overrides", "session"), "", never), refused);
        assert_eq!(named(&says("overrides", "per-cal"), "", never), refused);
        assert_eq!(named("", &says("secret", "per-cal"), never), refused);
        assert_eq!(named("", "", ApproveOnUse::PerCall), refused);

        let others = declared("required = [\"team/openai/key\"]", &says("secret", "per-call"));
        let set = ["GITHUB_TOKEN", "OPENAI_API_KEY"];
        let all = chosen(&others, &set).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
    }
}
