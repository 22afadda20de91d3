//! What the operator has agreed to, of what files say about where values go.
//!
//! config.toml, sources.toml and the token catalog are files of the account, so a process of it that is in no jail can write
//! them. Where they lead a value elsewhere than its secret says, or give one to a source, or say where tokens of a
//! service go, or keep the store open for longer than was agreed to, they count once somebody who has the factor has agreed: a command that opens the store shows what is new.
//! A broker that runs takes up nothing else. What was agreed to stands beside them, sealed with the vault's key; for how long the store
//! stays open stands in the store as well, so that a file which is taken away, or put back, loosens nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Deref,
    path::PathBuf,
};

use data_encoding::HEXLOWER;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Draft, Outcome, Target},
};
use keyless_vault::{Entries, RouterConfig, Vault, Voucher, read_settings};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    broker::{agent, plain_entry},
    config::{Config, EgressConfig},
    operator::audit_log,
    places::{Places, unusable},
    providers::offered_lines,
    whole_file::write_whole,
    window::{UnlockConfig, Window},
};

/// What was agreed to, as it stands in its file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Agreed {
    lines: BTreeSet<String>,
    /// The vault's word on them, in hexadecimal.
    seal: String,
}

impl Agreed {
    /// What the file says, whoever wrote it; nothing when there is none, or it can't be read.
    fn read(places: &Places) -> Self {
        let text = read_settings(&places.agreed_file()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// What the file says, if the vault vouches for it, and what the store has.
    fn with(places: &Places, voucher: &Voucher, window: AgreedWindow) -> BTreeSet<String> {
        let AgreedWindow(window) = window;
        Self::of(places, voucher).into_iter().chain(window).collect()
    }

    /// What the file says, if the vault vouches for it; else nothing.
    fn of(places: &Places, voucher: &Voucher) -> BTreeSet<String> {
        let Self { lines, seal } = Self::read(places);
        let seal = HEXLOWER.decode(seal.as_bytes()).unwrap_or_default();
        if voucher.fits(&sealed_bytes(&lines), &seal) { lines } else { BTreeSet::new() }
    }
}

/// The line of how long the store stays open that was agreed to last, as the store has it: by the home, of those that share one.
pub(crate) struct AgreedWindow(Option<String>);

impl AgreedWindow {
    pub(crate) async fn of(vault: &Vault) -> Result<Self, Error> {
        let kept = by_home(Box::pin(vault.agreed()).await?.as_deref());
        Ok(Self(kept.get(vault.store().audit_chain()).cloned()))
    }

    async fn keep(vault: &Vault, line: &str, entry: Entries<'_, ()>) -> Result<(), Error> {
        let home = vault.store().audit_chain().to_owned();
        vault
            .keep_agreed(entry, |kept| {
                let mut all = by_home(kept);
                all.insert(home, line.to_owned());
                serde_json::to_string(&all).expect("lines are plain data")
            })
            .await
    }
}

fn by_home(kept: Option<&str>) -> BTreeMap<String, String> {
    kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
}

/// By whose word it is that something was agreed to.
#[derive(Clone, Copy)]
pub enum AgreedBy<'v> {
    /// Everything is taken to be: in a job without a store, which has its values in its environment.
    Environment,
    /// `agreed.json` says so, whoever wrote it: enough to show something, not to bind a token.
    File,
    /// The vault vouches for it.
    Vault(&'v Voucher),
}

/// What was agreed to, to ask about single lines; without them, everything.
pub(crate) struct Agreement(Option<BTreeSet<String>>);

impl Agreement {
    /// What was agreed to by that word. Blocks.
    pub(crate) fn of(places: &Places, by: AgreedBy<'_>) -> Self {
        Self(match by {
            AgreedBy::Environment => None,
            AgreedBy::File => Some(Agreed::read(places).lines),
            AgreedBy::Vault(voucher) => Some(Agreed::of(places, voucher)),
        })
    }

    /// Whether it has this line.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.0.as_ref().is_none_or(|lines| lines.contains(line))
    }
}

fn sealed_bytes(lines: &BTreeSet<String>) -> Vec<u8> {
    serde_json::to_vec(lines).expect("lines are plain data")
}

/// config.toml as it was when somebody who has the factor had agreed to where it leads values, with what the command line adds.
#[derive(Clone, Debug)]
pub struct AgreedConfig(Config);

impl AgreedConfig {
    /// Adds the command line's routes and roots, which are the word of whoever opens the vault.
    pub fn with_flags(self, connect_to: &[String], extra_roots: &[PathBuf]) -> Result<Self, Error> {
        let Self(config) = self;
        config.with_flags(connect_to, extra_roots).map(Self)
    }
}

impl Deref for AgreedConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.0
    }
}

/// The lines of config.toml, sources.toml and the token catalog that need agreement, as they were at one moment: what is
/// shown of them is what is agreed to.
pub struct Leads {
    lines: BTreeSet<String>,
    config: Config,
}

impl Leads {
    /// What `config` and the sources need it for now. Blocks.
    pub fn of(places: &Places, config: Config) -> Self {
        let lines = needed(places, &config).into_iter().chain(offered_lines(places)).collect();
        Self { lines, config }
    }

    /// The lines of it that nobody has agreed to yet.
    pub async fn new_lines(&self, places: &Places, vault: &Vault) -> Result<Vec<String>, Error> {
        let window = AgreedWindow::of(vault).await?;
        Ok(lacking(&self.lines, &Agreed::with(places, &vault.agreement_voucher(), window)))
    }
}

/// What nothing is taken up without. Of the catalog, what is not agreed to leads nothing anywhere, and keeps nothing else from
/// being in force.
fn needed(places: &Places, config: &Config) -> BTreeSet<String> {
    // A file that can't be used gives nothing to anybody, and is told where it is used.
    let sources = RouterConfig::load(&places.sources_file()).unwrap_or_default().given_out();
    let window = config.unlock.window(None).ok().map(|window| window.line());
    sources.into_iter().chain(config.egress.leads_elsewhere()).chain(window).collect()
}

fn lacking(lines: &BTreeSet<String>, agreed: &BTreeSet<String>) -> Vec<String> {
    lines.iter().filter(|line| lacks(line, agreed)).cloned().collect()
}

/// Whether a line is none of the `agreed` ones. For how long the store stays open needs a word where it is longer than what
/// was agreed to last: a home that never said anything has the usual window.
fn lacks(line: &str, agreed: &BTreeSet<String>) -> bool {
    let window = Window::of_line(line);
    match window {
        None => !agreed.contains(line),
        Some(window) => {
            let mut said = agreed.iter().filter_map(|line| Window::of_line(line)).peekable();
            if said.peek().is_none() {
                return usual_window().is_some_and(|usual| window.is_looser_than(&usual));
            }
            said.any(|agreed| window.is_looser_than(&agreed))
        }
    }
}

/// How long the store stays open where nobody has said anything.
fn usual_window() -> Option<Window> {
    UnlockConfig::default().window(None).ok()
}

/// Whether `lines` say for how long the store stays open otherwise than what was agreed to, or than what is usual.
fn has_new_window(lines: &BTreeSet<String>, agreed: &BTreeSet<String>) -> bool {
    let usual = usual_window().map(|window| window.line());
    let mut windows = lines.iter().filter(|line| Window::of_line(line).is_some());
    let was_said = agreed.iter().any(|line| Window::of_line(line).is_some());
    windows.any(|line| !agreed.contains(line) && (was_said || Some(line) != usual.as_ref()))
}

fn refuse_lacking(lines: &BTreeSet<String>, agreed: &BTreeSet<String>) -> Result<(), Error> {
    match lacking(lines, agreed).first() {
        None => Ok(()),
        Some(line) => {
            Err(Error::with(Code::ConfigUnagreed, SafeText::default().as_they_wrote(line)))
        }
    }
}

impl EgressConfig {
    /// Where values may go by these settings, beyond what secrets say.
    fn leads_elsewhere(&self) -> Vec<String> {
        let routes = self.connect_to.iter();
        let routes = routes.map(|(from, to)| format!("connect_to {from} = {to}"));
        let roots = self.extra_roots.iter().map(|file| {
            let digest = file.pem().map(|pem| HEXLOWER.encode(&Sha256::digest(pem)));
            let path = file.path().display();
            format!("extra_roots {path}, SHA-256 {}", digest.unwrap_or_default())
        });
        let proxy = self.upstream_proxy.iter().map(|proxy| {
            let credential = proxy.credential_file.as_ref();
            let credential = credential.map(|file| format!(", with {}", file.display()));
            format!("upstream_proxy {}{}", proxy.address, credential.unwrap_or_default())
        });
        routes.chain(roots).chain(proxy).collect()
    }
}

/// Whether there may be something that nobody has agreed to, for a caller that has no vault open.
pub fn may_lack_agreement(places: &Places, config: &Config) -> bool {
    let agreed = Agreed::read(places).lines;
    Leads::of(places, config.clone()).lines.iter().any(|line| lacks(line, &agreed))
}

/// Refuses `config` where it, or sources.toml, needs agreement that nobody has given. Blocks.
pub async fn check_agreed(
    places: &Places,
    vault: &Vault,
    config: Config,
) -> Result<AgreedConfig, Error> {
    check(places, &vault.agreement_voucher(), AgreedWindow::of(vault).await?, config)
}

/// As [`check_agreed`], by the vault's word alone.
pub(crate) fn check(
    places: &Places,
    voucher: &Voucher,
    window: AgreedWindow,
    config: Config,
) -> Result<AgreedConfig, Error> {
    let agreed = Agreed::with(places, voucher, window);
    refuse_lacking(&needed(places, &config), &agreed).map(|()| AgreedConfig(config))
}

/// As [`check`], of what these sources are given, as they were read: they are what is used.
pub(crate) fn check_sources(
    places: &Places,
    vault: &Vault,
    sources: &RouterConfig,
) -> Result<(), Error> {
    let lines = sources.given_out().into_iter().collect();
    refuse_lacking(&lines, &Agreed::of(places, &vault.agreement_voucher()))
}

/// Takes what was shown as agreed to, on record where it is new.
pub async fn agree(places: &Places, vault: &Vault, leads: Leads) -> Result<AgreedConfig, Error> {
    let log = audit_log(vault);
    let Leads { lines, config } = leads;
    let window = AgreedWindow::of(vault).await?;
    let kept = window.0.clone();
    let agreed = Agreed::with(places, &vault.agreement_voucher(), window);
    let new = lacking(&lines, &agreed);
    // What is tighter needs nobody's word, and is what counts from now on.
    let is_settled = new.is_empty() && !has_new_window(&lines, &agreed);
    // What stood in the file alone, by an older Keyless, is kept in the store as well.
    let said = lines.iter().find(|line| Window::of_line(line).is_some());
    let is_kept =
        kept.as_ref() == said || !agreed.iter().any(|line| Window::of_line(line).is_some());
    if is_settled && is_kept {
        return Ok(AgreedConfig(config));
    }
    for line in new.iter().filter(|line| Some(*line) != said) {
        log.append(agreed_to(line, "agreed to")).await?;
    }
    if let Some(line) = said.filter(|line| kept.as_ref() != Some(*line)) {
        let note = if new.contains(line) { "agreed to" } else { "kept in the store, as agreed to" };
        let entry = Entries::in_log(&log, |()| vec![agreed_to(line, note)]);
        Box::pin(AgreedWindow::keep(vault, line, entry)).await?;
    }
    let seal = HEXLOWER.encode(&vault.agreement_voucher().seal(&sealed_bytes(&lines)));
    let text = serde_json::to_vec_pretty(&Agreed { lines, seal }).map_err(io::Error::from);
    let file = places.agreed_file();
    text.and_then(|text| write_whole(&file, &text, 0o600))
        .map_err(|error| unusable(&file, &error))?;
    Ok(AgreedConfig(config))
}

fn agreed_to(line: &str, note: &str) -> Draft {
    let target = Target::Named(SafeText::default().as_they_wrote_in_full(line));
    let who = agent("operator", "operator");
    let mut entry = plain_entry(who, Action::ConfigReload, Outcome::Success, target);
    entry.detail.note = Some(note.to_owned());
    entry
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scene::Scene;

    /// A window that an older Keyless has in the file alone is in the store once it is seen again; one that is usual, and was
    /// never spoken of, is not.
    #[tokio::test]
    async fn what_was_agreed_to_is_kept_in_the_store() {
        let Scene { vault, folder, .. } = Scene::new().await;
        let places = Places::below(folder.path());
        let config = |text: &str| -> Config { toml::from_str(text).unwrap() };
        let agreed = async |text: &str| {
            let leads = Leads::of(&places, config(text));
            let new = leads.new_lines(&places, &vault).await.unwrap();
            agree(&places, &vault, leads).await.unwrap();
            (new.len(), AgreedWindow::of(&vault).await.unwrap().0)
        };
        assert_eq!(agreed("").await, (0, None));
        // It was usual all the time: one that is longer takes a word.
        let longer = Leads::of(&places, config("[unlock]\nwindow = '20h'\nlongest = '48h'"));
        assert_eq!(longer.new_lines(&places, &vault).await.unwrap().len(), 1);
        let strict = config("[unlock]\nprofile = 'strict'").unlock.window(None).unwrap().line();
        let lines = BTreeSet::from([strict.clone()]);
        let seal = HEXLOWER.encode(&vault.agreement_voucher().seal(&sealed_bytes(&lines)));
        let text = serde_json::to_vec(&Agreed { lines, seal }).unwrap();
        fs::create_dir_all(places.agreed_file().parent().unwrap()).unwrap();
        fs::write(places.agreed_file(), text).unwrap();
        assert_eq!(agreed("[unlock]\nprofile = 'strict'").await, (0, Some(strict)));
        fs::remove_file(places.agreed_file()).unwrap();
        assert!(check_agreed(&places, &vault, config("")).await.is_err());
        let tight = "[unlock]\nprofile = 'strict'\nwindow = '5m'";
        let tighter = config(tight).unlock.window(None).unwrap().line();
        assert_eq!(agreed(tight).await, (0, Some(tighter)));
        let (new, kept) = agreed("").await;
        assert_eq!((new, kept.unwrap().contains("window 28800")), (1, true));
    }
}
