//! Where vendors' keys come from: `attestation-keys.json`, or an address that it names.
//!
//! What is fetched comes over https alone and is 64 KiB at most. It is good for an hour, and for a day when the address
//! does not answer; a key's name that is not among it has it fetched anew, once a minute at most. Several who want the
//! keys of one vendor wait for one fetch. Source: reference/nl.md, section 1.7.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{
    Header,
    jwk::{Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use keyless_core::{Error, Scheme, nl_message::AttestationIssuer};
use keyless_egress::{ClientRequest, Engine, Whose};
use keyless_vault::read_settings_text;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex as Turn;

use super::invalid;
use crate::catalog_urls;

/// The most that a set of keys may be, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// How long what was fetched is not asked for again.
const FRESH: SignedDuration = SignedDuration::from_hours(1);
/// How long it is good when the address does not answer.
const GOOD: SignedDuration = SignedDuration::from_hours(24);
/// Between two tries, whatever they come to.
const RESPITE: SignedDuration = SignedDuration::from_mins(1);

/// Fetches a document.
pub(crate) trait Fetch: Send + Sync {
    /// What is at an https address.
    fn fetch<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, Error>>;
}

/// The keys of vendors.
pub(crate) struct VendorKeys {
    file: PathBuf,
    fetch: Arc<dyn Fetch>,
    fetched: Mutex<HashMap<String, Arc<Turn<Fetched>>>>,
}

/// What is known of one address.
#[derive(Default)]
struct Fetched {
    keys: Option<(Vec<Value>, Timestamp)>,
    tried: Option<Timestamp>,
}

/// What the operator says of one vendor.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Vendor {
    keys: Vec<Value>,
    url: Option<String>,
}

impl VendorKeys {
    /// By the file, which need not be there.
    pub(crate) fn new(file: PathBuf, fetch: Arc<dyn Fetch>) -> Self {
        Self { file, fetch, fetched: Mutex::default() }
    }

    /// The key of a vendor for what a token's header says; where that names none, the only one there is.
    pub(super) async fn find(
        &self,
        vendor: &str,
        header: &Header,
        now: Timestamp,
    ) -> Result<Jwk, Error> {
        let Vendor { keys, url } = self.named(vendor)?;
        let unknown = || invalid("no key of its vendor is known by that name");
        match (pick(&keys, header), url) {
            (Some(key), _) => Ok(key),
            (None, None) => Err(unknown()),
            (None, Some(url)) => self.find_at(&url, header, now).await?.ok_or_else(unknown),
        }
    }

    async fn find_at(
        &self,
        url: &str,
        header: &Header,
        now: Timestamp,
    ) -> Result<Option<Jwk>, Error> {
        let slot = Arc::clone(self.fetched.lock().entry(url.to_owned()).or_default());
        let mut slot = slot.lock().await;
        if let Some(key) = slot.keys_within(FRESH, now).and_then(|keys| pick(keys, header)) {
            return Ok(Some(key));
        }
        if slot.tried.is_none_or(|tried| now < tried || now.duration_since(tried) >= RESPITE) {
            slot.tried = Some(now);
            let read = self.fetch.fetch(url).await;
            let set = read.ok().and_then(|text| serde_json::from_slice::<KeySet>(&text).ok());
            if let Some(KeySet { keys }) = set {
                slot.keys = Some((keys, now));
            }
        }
        match slot.keys_within(GOOD, now) {
            Some(keys) => Ok(pick(keys, header)),
            None => Err(invalid("its vendor's keys can't be fetched")),
        }
    }

    /// The vendors, and where the keys of each are; none while the file can't be read.
    pub(super) fn issuers(&self) -> Vec<AttestationIssuer> {
        let all = self.all().unwrap_or_default();
        all.into_iter()
            .map(|(issuer, Vendor { url, .. })| AttestationIssuer { issuer, jwks_uri: url })
            .collect()
    }

    fn named(&self, vendor: &str) -> Result<Vendor, Error> {
        self.all()?.remove(vendor).ok_or_else(|| invalid("no keys of its vendor are known"))
    }

    fn all(&self) -> Result<BTreeMap<String, Vendor>, Error> {
        let text = match read_settings_text(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
            Err(_) => return Err(invalid("the vendors' keys can't be read")),
        };
        serde_json::from_str(&text).map_err(|_| invalid("the vendors' keys can't be read"))
    }
}

/// A set of keys.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl Fetched {
    /// A clock that was set back makes them none.
    fn keys_within(&self, life: SignedDuration, now: Timestamp) -> Option<&[Value]> {
        let (keys, at) = self.keys.as_ref()?;
        (now >= *at && now.duration_since(*at) < life).then_some(keys)
    }
}

/// What can't be read, and what is for something else than such signatures, is passed over (RFC 7517, sections 4 and 5).
fn pick(keys: &[Value], header: &Header) -> Option<Jwk> {
    let read = keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
    let mut fitting = read.filter(|key| {
        let common = &key.common;
        let of = |alg: &KeyAlgorithm| *alg == header.alg.into();
        common.public_key_use.as_ref().is_none_or(|word| *word == PublicKeyUse::Signature)
            && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify))
            && common.key_algorithm.as_ref().is_none_or(of)
            && header.kid.as_ref().is_none_or(|kid| common.key_id.as_ref() == Some(kid))
    });
    match (fitting.next(), &header.kid) {
        (found, Some(_)) => found,
        (found, None) => found.filter(|_| fitting.next().is_none()),
    }
}

/// By the broker's own way out: its roots, zones and routes.
pub(crate) struct ThroughEngine(pub(crate) Arc<Engine>);

impl Fetch for ThroughEngine {
    fn fetch<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        Box::pin(async move {
            let split = catalog_urls::split(url);
            let (authority, target) =
                split.ok_or_else(|| invalid("the address of its vendor's keys is no https URL"))?;
            let headers = vec![("accept", "application/json")];
            let request = ClientRequest { method: "GET", target, headers, body: b"" };
            let client = self.0.client().map_err(|_| invalid("keys can't be fetched here"))?;
            let (scheme, whose) = (Scheme::Https, Whose::Operators);
            let answer = client.send(scheme, &authority, whose, &request, MAX_BYTES).await?;
            match answer.status {
                200 => Ok(answer.body),
                _ => Err(invalid("the address of its vendor's keys has none")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use jsonwebtoken::Algorithm;
    use serde_json::json;

    use super::*;

    /// An address that can be away, and whose keys can change.
    struct Address {
        asked: AtomicUsize,
        keys: Mutex<Option<Vec<&'static str>>>,
    }

    impl Fetch for Address {
        fn fetch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                tokio::task::yield_now().await;
                let key =
                    |kid: &&str| json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": kid });
                let keys = self.keys.lock().clone().ok_or_else(|| invalid("away"))?;
                let keys: Vec<_> = keys.iter().map(key).collect();
                Ok(json!({ "keys": keys }).to_string().into_bytes())
            })
        }
    }

    #[tokio::test]
    async fn keys_are_fetched_once_and_kept_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        fs::write(&file, r#"{ "acme.corp": { "url": "https://acme.corp/jwks.json" } }"#).unwrap();
        let address =
            Arc::new(Address { asked: AtomicUsize::new(0), keys: Mutex::new(Some(vec!["a"])) });
        let keys = VendorKeys::new(file.clone(), Arc::clone(&address) as _);
        let issuers = || json!(keys.issuers());
        let uri = "https://acme.corp/jwks.json";
        assert_eq!(issuers(), json!([{ "issuer": "acme.corp", "jwks_uri": uri }]));
        let at = |minutes: i64| Timestamp::from_second(1_770_000_000 + minutes * 60).unwrap();
        let named =
            |kid: &str| Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
        let find = async |kid: &'static str, minutes| {
            keys.find("acme.corp", &named(kid), at(minutes)).await
        };
        let asked = || address.asked.load(Ordering::SeqCst);
        let found = join_all((0..8).map(|_| find("a", 0))).await;
        assert!(found.iter().all(Result::is_ok));
        assert_eq!(asked(), 1, "several wait for one");
        find("a", 59).await.unwrap();
        assert_eq!(asked(), 1);
        // A name that is not there has them fetched anew, but not at every try.
        *address.keys.lock() = Some(vec!["a", "b"]);
        find("b", 59).await.unwrap();
        assert_eq!(asked(), 2);
        assert!(find("c", 59).await.is_err());
        assert_eq!(asked(), 2);
        // Away: what was fetched is good for a day.
        *address.keys.lock() = None;
        find("b", 59 + 23 * 60).await.unwrap();
        assert!(find("b", 59 + 24 * 60).await.is_err());
        assert!(keys.find("other.corp", &Header::new(Algorithm::EdDSA), at(0)).await.is_err());
        // A clock that went back makes what is kept none.
        assert!(find("a", -5).await.is_err());
    }
}
