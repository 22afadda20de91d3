//! `config.toml`: the operator's own routes, roots and egress policy. Unknown keys are errors.

mod aliases;
mod nl;
mod root_file;

use std::{
    collections::{BTreeMap, HashSet},
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use keyless_core::{Authority, Code, Destination, Error, SafeText, audit::Mark};
use keyless_egress::{Allowance, Limits, ProxyCredential, UpstreamProxy};
use keyless_vault::{read_settings_text, toml_fault};
use serde::Deserialize;

pub use self::nl::{Activation, DetectionWord, NlConfig, NlTls};
pub(crate) use self::nl::{MAX_ATTESTATION_SKEW, MAX_PROOF_SKEW, RatesConfig};
use self::{aliases::refuse_aliases, root_file::RootFile};
use crate::{
    desktop::DesktopConfig,
    liveness::LivenessConfig,
    log_keeping::{AuditConfig, ComplianceConfig},
    passphrase::read_passphrase_file,
    places::unusable,
    store_place::StoreConfig,
    web::WebConfig,
    window::UnlockConfig,
};

/// The most that `[nl] max_delegation_depth` may be: each link is read at each use.
const MAX_DEPTH: u32 = 16;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// When parts of the log are closed, and for how long they are kept.
    pub audit: AuditConfig,
    /// What entries of the log say about uses of some secrets.
    pub compliance: Vec<ComplianceConfig>,
    /// Whether the desktop tells what waits.
    pub desktop: DesktopConfig,
    /// What traffic may do.
    pub egress: EgressConfig,
    /// When services are asked about values.
    pub liveness: LivenessConfig,
    /// Where the NL Protocol is served, beside its socket.
    pub nl: NlConfig,
    /// Whether a person answers for deploys of agent configuration.
    pub pack: PackConfig,
    /// Where the store is.
    pub store: StoreConfig,
    /// How long the store stays open.
    pub unlock: UnlockConfig,
    /// What is wanted of the operator's page.
    pub web: WebConfig,
}

/// `[pack]`. Read at each deploy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PackConfig {
    /// Which deploys wait until a person has allowed them.
    pub approve_apply: ApproveApply,
}

/// Deploys that a person has to allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApproveApply {
    /// All: `deploy_apply`, and `keyless pack deploy --apply` as well.
    Always,
    /// None.
    #[default]
    Never,
    /// Deploys by an agent's tool: `deploy_apply`.
    Tools,
}

/// `[egress]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressConfig {
    /// `"host:port" = "addr:port"`: where a destination really is. The operator's exact word, so
    /// zones don't apply to it.
    pub connect_to: BTreeMap<String, String>,
    /// PEM files of private roots that upstream certificates may chain to.
    pub extra_roots: Vec<RootFile>,
    /// Internal destinations that may be reached, as exact `host:port` or `ip:port`.
    pub internal_allowlist: Vec<String>,
    /// Whether any external host may be reached, or only listed ones.
    pub policy: PolicyWord,
    /// With `policy = "allowlist"`: hosts that may be reached beside the secrets' own.
    pub allowlist: Vec<Destination>,
    /// Hosts whose TLS is never intercepted, since their clients pin the certificate.
    pub pass_through: Vec<Destination>,
    /// The company's proxy that leads out.
    pub upstream_proxy: Option<UpstreamProxyConfig>,
    /// How much may be asked for.
    pub limits: LimitsConfig,
}

/// `[egress.upstream_proxy]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamProxyConfig {
    /// `host:port`.
    pub address: String,
    /// A file with `user:password`, the caller's own and 0600.
    #[serde(default)]
    pub credential_file: Option<PathBuf>,
    /// Hosts that are reached without it.
    #[serde(default)]
    pub direct: Vec<Destination>,
}

/// `[egress.limits]`; what is absent is not limited, but for connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Connections of clients at the same time, all sessions together. 2,000 when absent.
    pub connections: Option<NonZeroUsize>,
    /// Requests and tunnels of one session.
    pub requests_per_minute: Option<u32>,
    /// Bytes of one session's bodies and tunnels, both ways together.
    pub bytes_per_hour: Option<u64>,
}

/// The lockdown knob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyWord {
    /// Any external destination.
    #[default]
    Allow,
    /// Only listed hosts and the secrets' own destinations.
    Allowlist,
}

/// Where the configuration comes from: the file, and the command line's words, which go before it.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// `config.toml`, there or not.
    pub file: PathBuf,
    /// `--connect-to`, each `HOST:PORT=ADDR:PORT`.
    pub connect_to: Vec<String>,
    /// `--extra-root`.
    pub extra_roots: Vec<PathBuf>,
}

impl ConfigSource {
    /// Reads it as it is now.
    pub fn load(&self) -> Result<Config, Error> {
        Config::load(&self.file)?.with_flags(&self.connect_to, &self.extra_roots)
    }
}

impl Config {
    /// Adds the command line's routes and roots, which go before the file's. [`Code::Usage`] where two of them are for one
    /// host and port: either could be meant.
    pub fn with_flags(
        mut self,
        connect_to: &[String],
        extra_roots: &[PathBuf],
    ) -> Result<Self, Error> {
        let mut routed = HashSet::new();
        for route in connect_to {
            let usage = |fault: &str| {
                let words = SafeText::words("--connect-to: ").as_they_wrote(fault);
                Error::with(Code::Usage, words)
            };
            let (from, to) = parse_route(route).map_err(|fault| usage(&fault))?;
            self.egress.connect_to.retain(|name, _| Authority::parse(name).as_ref() != Ok(&from));
            self.egress.connect_to.insert(from.to_string(), to.to_string());
            if let Some(from) = routed.replace(from) {
                return Err(usage(&format!(
                    "{from} stands there twice; keep the one that is meant"
                )));
            }
        }
        self.egress.extra_roots.extend(extra_roots.iter().cloned().map(RootFile::from));
        Ok(self)
    }

    /// Reads the file; the defaults when there is none.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = match read_settings_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(invalid(path, "it is not UTF-8"));
            }
            Err(error) => return Err(unusable(path, &error)),
        };
        Self::parse(&text).map_err(|fault| invalid(path, &fault))
    }

    /// As [`load`](Self::load). Of a file that can't be used it gives what is sure all the same, with the fault beside it: where
    /// the store is, and what is noted in its log; all else is as without a file. Fails where that is not sure, so that no
    /// other store is ever looked at.
    pub(crate) fn of_store(path: &Path) -> Result<(Self, Option<Error>), Error> {
        let fault = match Self::load(path) {
            Ok(config) => return Ok((config, None)),
            Err(fault) => fault,
        };
        match read_settings_text(path).ok().and_then(|text| Self::store_alone(&text)) {
            Some(config) => Ok((config, Some(fault))),
            None => Err(fault),
        }
    }

    fn store_alone(text: &str) -> Option<Self> {
        let mut table: toml::Table = text.parse().ok()?;
        // A section that is none of these may be what was to say where the store is.
        for section in ["audit", "desktop", "egress", "liveness", "nl", "pack", "unlock", "web"] {
            table.remove(section);
        }
        refuse_aliases(&table).ok()?;
        let config: Self = table.try_into().ok()?;
        config.marks().ok()?;
        // A server below another heading than [store] is one that was meant.
        let is_sure = config.store.url.is_some() || !text.contains("postgres");
        is_sure.then_some(config)
    }

    /// What the operator wants noted in entries of the log.
    pub(crate) fn marks(&self) -> Result<Vec<Mark>, String> {
        self.compliance.iter().map(ComplianceConfig::mark).collect()
    }

    /// Files that it names and that hold a key, a password or a credential: hidden from agents.
    pub fn files_with_credentials(&self) -> Vec<PathBuf> {
        let upstream = self.egress.upstream_proxy.as_ref();
        let files = [
            self.nl.tls.as_ref().map(|tls| &tls.key),
            self.web.tls.as_ref().map(|tls| &tls.key),
            self.store.password_file.as_ref(),
            upstream.and_then(|proxy| proxy.credential_file.as_ref()),
        ];
        let webhooks = self.nl.webhooks.iter().filter_map(|webhook| webhook.key.file());
        files.into_iter().flatten().chain(webhooks).cloned().collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| toml_fault(text, &e))?;
        refuse_aliases(&table)?;
        let config: Self = toml::from_str(text).map_err(|error| toml_fault(text, &error))?;
        let mut routed = HashSet::new();
        for (from, to) in &config.egress.connect_to {
            let (from, _) = parse_route(&format!("{from}={to}"))?;
            if let Some(from) = routed.replace(from) {
                return Err(format!("connect_to has {from} twice; keep the one that is meant"));
            }
        }
        config.audit.check()?;
        config.marks()?;
        config.nl.scale().map_err(|error| format!("[nl.threat]: {error}"))?;
        config.nl.check_rates()?;
        config.nl.clock_skew.check()?;
        if config.nl.max_depth() > MAX_DEPTH {
            return Err(format!("max_delegation_depth is 0 to {MAX_DEPTH}"));
        }
        match config.nl.tempfile_seconds {
            None | Some(1..=600) => Ok(config),
            Some(_) => Err("tempfile_seconds is 1 to 600".to_owned()),
        }
    }
}

impl EgressConfig {
    /// Files that it names, whose contents are taken up as it is.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let upstream = self.upstream_proxy.as_ref();
        let credential = upstream.and_then(|proxy| proxy.credential_file.as_ref());
        let roots = self.extra_roots.iter().map(RootFile::path);
        roots.chain(credential.map(PathBuf::as_path)).map(Path::to_owned)
    }

    /// The proxy that leads out, with its credential read.
    pub(crate) fn proxy(&self) -> Result<Option<UpstreamProxy>, Error> {
        let Some(proxy) = &self.upstream_proxy else { return Ok(None) };
        let invalid = |words: SafeText| {
            let place = SafeText::words("[egress.upstream_proxy] ");
            Error::with(Code::ConfigInvalid, place.and(words))
        };
        let address = Authority::parse(&proxy.address).map_err(|error| {
            let words = SafeText::words("address ").as_they_wrote(&proxy.address);
            invalid(words.and(": ").and(error))
        })?;
        let credential = match &proxy.credential_file {
            None => None,
            Some(file) => {
                let pair = read_passphrase_file(file)?;
                let credential = ProxyCredential::new(pair);
                let form = || invalid(SafeText::words("credential_file holds no user:password"));
                Some(credential.ok_or_else(form)?)
            }
        };
        Ok(Some(UpstreamProxy { address, credential, direct: proxy.direct.clone() }))
    }

    /// What one session may ask for.
    pub(crate) fn allowance(&self) -> Allowance {
        let LimitsConfig { requests_per_minute, bytes_per_hour, .. } = self.limits;
        Allowance { requests_per_minute, bytes_per_hour }
    }

    /// The proxy's bounds.
    pub(crate) fn limits(&self) -> Limits {
        let usual = Limits::default();
        let connections = self.limits.connections.map_or(usual.connections, NonZeroUsize::get);
        Limits { connections, ..usual }
    }

    /// The routes, parsed.
    pub fn routes(&self) -> Result<Vec<(Authority, Authority)>, Error> {
        let parse = |(from, to): (&String, &String)| {
            parse_route(&format!("{from}={to}")).map_err(|fault| {
                Error::with(Code::ConfigInvalid, SafeText::default().as_they_wrote(&fault))
            })
        };
        self.connect_to.iter().map(parse).collect()
    }

    /// The internal exceptions, parsed.
    pub fn internal(&self) -> Result<Vec<Authority>, Error> {
        let parse = |text: &String| {
            Authority::parse(text).map_err(|error| {
                let detail = SafeText::words("internal_allowlist: ").as_they_wrote(text);
                Error::with(Code::ConfigInvalid, detail.and(": ").and(error))
            })
        };
        self.internal_allowlist.iter().map(parse).collect()
    }
}

/// Reads `HOST:PORT=ADDR:PORT`.
pub fn parse_route(text: &str) -> Result<(Authority, Authority), String> {
    let Some((from, to)) = text.split_once('=') else {
        return Err(format!("{text:?} is not HOST:PORT=ADDR:PORT"));
    };
    let side = |side: &str| Authority::parse(side).map_err(|error| format!("{side:?}: {error}"));
    let (from, to) = (side(from)?, side(to)?);
    if to.host.as_name().is_some() {
        return Err(format!(
            "{:?} is a name; the address where {from} really is goes there",
            to.to_string()
        ));
    }
    Ok((from, to))
}

fn invalid(path: &Path, fault: &str) -> Error {
    let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
    Error::with(Code::ConfigInvalid, place.and(": ").as_they_wrote(fault.trim()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_route_of_the_command_line_goes_before_the_files_and_is_one() {
        let file = "[egress.connect_to]\n'api.test:443' = '127.0.0.1:1'";
        let with = |routes: &[&str]| {
            let routes: Vec<_> = routes.iter().map(ToString::to_string).collect();
            let config = Config::parse(file).unwrap().with_flags(&routes, &[]);
            config.map(|config| config.egress.routes().unwrap()).map_err(|error| error.message())
        };
        let [(from, to)] = &with(&["API.test.:443=127.0.0.1:2"]).unwrap()[..] else { panic!() };
        assert_eq!((from.to_string(), to.port), ("api.test:443".to_owned(), 2));
        let other_port = ["api.test:443=127.0.0.1:2", "api.test:80=127.0.0.1:2"];
        assert_eq!(with(&other_port).unwrap().len(), 2);
        let twice = with(&["api.test:443=127.0.0.1:2", "API.test:443=127.0.0.1:3"]).unwrap_err();
        assert!(twice.contains("api.test:443 stands there twice"), "{twice}");
    }

    #[test]
    fn the_documented_file_reads() {
        let text = r#"
            [egress]
            connect_to = { "api.test:443" = "127.0.0.1:8443" }
            extra_roots = ["/etc/corp.pem"]
            internal_allowlist = ["git.corp.test:443"]
            policy = "allowlist"
            allowlist = ["pypi.org", "*.pythonhosted.org"]
            [pack]
            approve_apply = "tools"
            [nl]
            detection = "record"
            tempfile_seconds = 300
            idle_hours = 0
            activation = "admin"
            [nl.clock_skew]
            attestations = 5
            proofs = 120
            [nl.rates]
            address = 60
            [nl.threat]
            half_life_hours = 24
            weights = { T8 = 20, TX-1 = 0 }
            [egress.limits]
            requests_per_minute = 600
            bytes_per_hour = 1_000_000_000
            connections = 500
        "#;
        let config = Config::parse(text).unwrap();
        assert_eq!(config.pack.approve_apply, ApproveApply::Tools);
        assert_eq!(config.egress.policy, PolicyWord::Allowlist);
        assert_eq!(config.nl.tempfile_life(), Duration::from_mins(5));
        assert_eq!(config.nl.activation, Activation::Admin);
        let skew = config.nl.clock_skew;
        assert_eq!([skew.attestations, skew.proofs, skew.messages], [5, 120, 300]);
        let rates = config.nl.rates;
        assert_eq!([rates.agent, rates.address].map(Into::<u32>::into), [120, 60]);
        let grace =
            Config::parse("[nl]\ngrace_minutes = 5\ndeprecated_hours = 0").unwrap().nl.grace();
        assert_eq!((grace.full.as_secs(), grace.deprecated.as_secs()), (300, 0));
        let mark =
            "[[compliance]]\nsecrets = ['team/billing/**']\nmetadata = { cardholder_data = true }";
        assert_eq!(Config::parse(mark).unwrap().marks().unwrap().len(), 1);
        let wrong = Config::parse("[[compliance]]\nsecrets = ['a b']\nmetadata = { a = true }");
        assert!(wrong.unwrap_err().contains("a b"));
        assert_eq!((config.nl.idle(), NlConfig::default().idle().is_some()), (None, true));
        assert_eq!(config.egress.routes().unwrap().len(), 1);
        assert_eq!(config.egress.limits().connections, 500);
        assert_eq!(config.egress.allowance().requests_per_minute, Some(600));
        assert_eq!(config.egress.internal().unwrap()[0].to_string(), "git.corp.test:443");
    }

    #[test]
    fn a_fault_elsewhere_leaves_it_sure_where_the_store_is() {
        let url = |text: &str| Config::store_alone(text).map(|config| config.store.url);
        let server = "postgres://keyless@db.test/keyless";
        let store = format!("[store]\nurl = '{server}'\n");
        assert_eq!(url("[egress]\npolcy = 'x'"), Some(None));
        assert_eq!(url(&format!("{store}[egress]\npolcy = 'x'")), Some(Some(server.to_owned())));
        for unsure in [
            format!("[stor]\nurl = '{server}'"),
            format!("[egress]\nurl = '{server}'"),
            "[stor]\npassword_file = '/x'\n[egress]\npolcy = 'x'".to_owned(),
            format!("{store}pasword_file = '/x'"),
            "[egress]\npolcy = 'x'\n[[compliance]]\nsecrets = ['a b']\nmetadata = { a = true }"
                .to_owned(),
            "[egress".to_owned(),
        ] {
            assert_eq!(url(&unsure), None, "{unsure}");
        }
    }

    #[test]
    fn unknown_keys_and_bad_routes_are_refused() {
        assert!(Config::parse("[egress]\nconect_to = {}").unwrap_err().contains("conect_to"));
        let twice = "[egress.connect_to]\n'a.test:1' = '127.0.0.1:1'\n'A.test.:1' = '127.0.0.1:2'";
        let fault = Config::parse(twice).unwrap_err();
        assert!(fault.contains("connect_to has a.test:1 twice"), "{fault}");
        assert!(Config::parse("[egress]\nextra_roots = 3").is_err());
        // It would refuse everything.
        let none = Config::parse("[egress.limits]\nconnections = 0").unwrap_err();
        assert!(none.contains("connections") && none.contains("nonzero"), "{none}");
        let deep = Config::parse("[nl]\nmax_delegation_depth = 17").unwrap_err();
        assert!(deep.contains("max_delegation_depth is 0 to 16"), "{deep}");
        assert_eq!(Config::parse("[nl]\nmax_delegation_depth = 0").unwrap().nl.max_depth(), 0);
        for numbers in ["tempfile_seconds = 0", "[nl.threat]\nweights = { T8 = 101 }"] {
            assert!(Config::parse(&format!("[nl]\n{numbers}")).is_err(), "{numbers}");
        }
        let word = Config::parse("[nl]\nactivation = \"always\"").unwrap_err();
        assert!(word.contains("`admin`") && word.contains("`first_auth`"), "{word}");
        for (skew, bounds) in [
            ("attestations = 301", "attestations is 5 to 300 seconds"),
            ("proofs = 121", "proofs is 5 to 120 seconds"),
            ("messages = 301", "messages is 5 to 300 seconds"),
            ("messages = 4", "messages is 5 to 300 seconds"),
            ("proofs = -1", "invalid value"),
            ("prooves = 30", "unknown field"),
        ] {
            let fault = Config::parse(&format!("[nl.clock_skew]\n{skew}")).unwrap_err();
            assert!(fault.contains(bounds), "{skew}: {fault}");
        }
        for rate in ["agent = 0", "address = 10_001", "adress = 1"] {
            assert!(Config::parse(&format!("[nl.rates]\n{rate}")).is_err(), "{rate}");
        }
        assert!(Config::parse("[nl.threat]\nweights = { T99 = 1 }").unwrap_err().contains("T99"));
        let proxy = "[egress.upstream_proxy]\naddress = \"a.test:1\"\npassword = \"x\"";
        assert!(Config::parse(proxy).unwrap_err().contains("password"));
        assert!(Config::parse("[egress]\nconnect_to = { \"a.test\" = \"b\" }").is_err());
        assert!(Config::parse("[egress]\nallowlist = [\"*.github.io\"]").is_err());
    }

    #[test]
    fn an_alias_that_nothing_resolves_is_refused() {
        for (text, place) in [
            ("[egress.upstream_proxy]\naddress = '@secret:a/b/c'", "egress.upstream_proxy.address"),
            ("[egress]\nextra_roots = ['/a', '@secret:a/b/c']", "egress.extra_roots"),
            ("[store]\npassword_file = '@secret:a/b/c'", "store.password_file"),
            (
                "[[nl.webhooks]]\nurl = 'https://a.test'\nkey_file = '@secret:a/b/c'",
                "nl.webhooks.key_file",
            ),
            ("[[compliance]]\nmetadata = { a = '@secret:a/b' }", "compliance.metadata.a"),
        ] {
            let fault = Config::parse(text).unwrap_err();
            assert!(fault.starts_with(&format!("{place} is an alias, ")), "{fault}");
        }
        let hook = |key: &str| format!("nl.webhooks = [{{ url = 'https://a.test', key = {key} }}]");
        let config = Config::parse(&hook("'@secret:a/b/c'")).unwrap();
        assert_eq!(config.files_with_credentials(), Vec::<PathBuf>::new());
        for literal in ["'hunter2-hunter2-hunter2'", "17", "['hunter2']", "{ a = 'hunter2' }"] {
            let fault = Config::parse(&hook(literal)).unwrap_err();
            assert!(fault.contains("nl.webhooks: key is no alias"), "{fault}");
            assert!(!fault.contains("hunter2") && !fault.contains("17"), "{fault}");
        }
    }
}
