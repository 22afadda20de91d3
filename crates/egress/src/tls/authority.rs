//! A session's certificate authority: P-256, at most 48 hours, its key nowhere but in memory; or, for
//! a fleet, one that is kept (`ca_keys`).
//!
//! A session may last longer. From half its life on, the authority has another certificate for whoever asks, over the same name and
//! key: what trusts the older one goes on to its end, and takes the same leaves.
//!
//! Name constraints are not to be had, since the set of hosts is open; a short life and one
//! authority per session stand in for them. Source: reference/egress.md (c) 29 and 35.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyless_core::{Code, Error, Host};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    version::{TLS12, TLS13},
};

use super::{ca_keys::CaKeys, leaves::Leaves};

/// Clocks of guests run late: certificates are valid from an hour before they were made.
const BACKDATED: Duration = Duration::from_hours(1);
/// How long programs that were given a session's certificate may trust it: one hour before and 47 after, 48 in all.
pub const AUTHORITY_LIFE: Duration = Duration::from_hours(47);
/// From here on, who asks for the certificate gets another.
const RENEWED_AFTER: Duration = Duration::from_hours(23);
const LEAF_LIFE: Duration = Duration::from_hours(23);
/// A cached leaf is used up to this long before its end.
const LEAF_MARGIN: Duration = Duration::from_hours(1);

/// A certificate authority that signs for one session.
pub(crate) struct CertificateAuthority {
    origin: Origin,
    trusted: Mutex<Trusted>,
    /// One key for every leaf of the session: minting is then one signature.
    leaf_key: KeyPair,
    leaves: Leaves,
}

/// Where an authority's key is.
enum Origin {
    /// Elsewhere too, with the certificate.
    Kept(Issuer<'static, KeyPair>),
    /// Only here.
    Own { params: Box<CertificateParams>, key: KeyPair },
}

/// What programs trust an authority by.
#[derive(Clone)]
struct Trusted {
    certificate: CertificateDer<'static>,
    pem: String,
    made: SystemTime,
}

/// What a host is served with, and for how long.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) config: Arc<ServerConfig>,
    minted: SystemTime,
}

impl CertificateAuthority {
    /// Makes a fresh authority that keeps at most `leaves` leaves.
    pub(crate) fn mint(leaves: usize) -> Result<Self, Error> {
        Self::try_mint(leaves).map_err(|_| Code::Internal.into())
    }

    /// One whose key is kept elsewhere, and shared by sessions.
    pub(crate) fn load(keys: &CaKeys, leaves: usize) -> Result<Self, Error> {
        let pem = keys.certificate_pem().to_owned();
        let trusted = Trusted { pem, certificate: keys.certificate()?, made: SystemTime::now() };
        Ok(Self {
            origin: Origin::Kept(keys.issuer()?),
            trusted: Mutex::new(trusted),
            leaf_key: KeyPair::generate().map_err(|_| Code::Internal)?,
            leaves: Leaves::new(leaves),
        })
    }

    fn try_mint(leaves: usize) -> Result<Self, MintError> {
        let key = KeyPair::generate()?;
        let (params, trusted) = Trusted::make(&key, SystemTime::now())?;
        Ok(Self {
            origin: Origin::Own { params: Box::new(params), key },
            trusted: Mutex::new(trusted),
            leaf_key: KeyPair::generate()?,
            leaves: Leaves::new(leaves),
        })
    }

    /// The authority's certificate in PEM, good for another day if it is not one that is kept.
    pub(crate) fn pem(&self) -> String {
        self.trusted_at(SystemTime::now()).pem
    }

    fn trusted_at(&self, now: SystemTime) -> Trusted {
        let mut trusted = self.trusted.lock();
        if let Origin::Own { key, .. } = &self.origin
            && trusted.is_old_at(now)
            && let Ok((_, younger)) = Trusted::make(key, now)
        {
            *trusted = younger;
        }
        trusted.clone()
    }

    /// How to serve `host`, with a leaf from the cache or a new one.
    pub(crate) fn serve(&self, host: &Host) -> Result<Arc<ServerConfig>, Error> {
        let now = SystemTime::now();
        if let Some(leaf) = self.leaves.get(host)
            && leaf.is_good_at(now)
        {
            return Ok(leaf.config);
        }
        let leaf = self.mint_leaf(host, now).map_err(|_| Error::new(Code::Internal))?;
        self.leaves.put(host.clone(), leaf.clone());
        Ok(leaf.config)
    }

    /// A certificate for `host`, signed now.
    pub(super) fn certificate_for(&self, host: &Host) -> Result<CertificateDer<'static>, Error> {
        self.sign(host, SystemTime::now()).map_err(|_| Code::Internal.into())
    }

    fn sign(&self, host: &Host, now: SystemTime) -> Result<CertificateDer<'static>, MintError> {
        let mut params = valid_around(now, LEAF_LIFE)?;
        params.distinguished_name.push(DnType::CommonName, "Keyless session leaf");
        params.subject_alt_names = vec![match host {
            Host::Ip(address) => SanType::IpAddress(*address),
            Host::Name(name) => SanType::DnsName(name.as_str().try_into()?),
        }];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = match &self.origin {
            Origin::Kept(issuer) => params.signed_by(&self.leaf_key, issuer),
            Origin::Own { params: own, key } => {
                params.signed_by(&self.leaf_key, &Issuer::from_params(own, key))
            }
        };
        Ok(certificate?.der().clone())
    }

    pub(super) fn mint_leaf(&self, host: &Host, now: SystemTime) -> Result<Leaf, MintError> {
        let certificate = self.sign(host, now)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let chain = vec![certificate, self.trusted_at(now).certificate];
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = [&b"h2"[..], b"http/1.1", b"http/1.0"].map(<[u8]>::to_vec).to_vec();
        Ok(Leaf { config: Arc::new(config), minted: now })
    }
}

impl Trusted {
    fn make(key: &KeyPair, now: SystemTime) -> Result<(CertificateParams, Self), MintError> {
        let (params, made) = self_signed(key, "Keyless session authority", now, AUTHORITY_LIFE)?;
        Ok((params, Self { certificate: made.der().clone(), pem: made.pem(), made: now }))
    }

    /// Clocks jump in both directions.
    fn is_old_at(&self, now: SystemTime) -> bool {
        match now.duration_since(self.made) {
            Ok(age) => age >= RENEWED_AFTER,
            Err(ahead) => ahead.duration() >= BACKDATED,
        }
    }
}

impl Leaf {
    /// Clocks jump in both directions.
    fn is_good_at(&self, now: SystemTime) -> bool {
        match now.duration_since(self.minted) {
            Ok(age) => age + LEAF_MARGIN < LEAF_LIFE,
            Err(ahead) => ahead.duration() < BACKDATED,
        }
    }
}

/// Parameters and certificate of an authority that signs leaves and nothing else.
pub(super) fn self_signed(
    key: &KeyPair,
    name: &str,
    now: SystemTime,
    life: Duration,
) -> Result<(CertificateParams, Certificate), MintError> {
    let mut params = valid_around(now, life)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(key)?;
    Ok((params, certificate))
}

/// Why a certificate could not be made; never the client's fault.
#[derive(Debug, thiserror::Error)]
pub(super) enum MintError {
    #[error(transparent)]
    Certificate(#[from] rcgen::Error),
    #[error("no randomness")]
    Random,
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Parameters for a certificate that is valid for `life` from now, and for an hour before.
fn valid_around(now: SystemTime, life: Duration) -> Result<CertificateParams, MintError> {
    let serial = super::random::<16>().map_err(|_| MintError::Random)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + life).into();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    // Python 3.13 and OpenSSL 3 verify strictly and want both key identifiers.
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ca_keys::verify;

    #[test]
    fn leaves_are_kept_until_the_clock_says_otherwise() {
        let authority = CertificateAuthority::mint(4).unwrap();
        let host = Host::parse("a.test").unwrap();
        let first = authority.serve(&host).unwrap();
        assert!(Arc::ptr_eq(&first, &authority.serve(&host).unwrap()));
        let now = SystemTime::now();
        let leaf = authority.mint_leaf(&host, now).unwrap();
        let day = Duration::from_hours(24);
        assert!(leaf.is_good_at(now) && leaf.is_good_at(now - BACKDATED / 2));
        assert!(!leaf.is_good_at(now + day) && !leaf.is_good_at(now - day));
    }

    #[test]
    fn a_session_that_lasts_has_another_certificate_over_the_same_key() {
        let authority = CertificateAuthority::mint(4).unwrap();
        let begun = SystemTime::now();
        let hours = |hours| begun + Duration::from_hours(hours);
        let (first, host) = (authority.trusted_at(begun), Host::parse("a.test").unwrap());
        assert_eq!(authority.trusted_at(hours(20)).pem, first.pem);
        let second = authority.trusted_at(hours(40));
        assert_ne!(second.pem, first.pem);
        assert_eq!(second.made, hours(40));
        // Programs that have only the first go on to its end.
        for root in [&first, &second] {
            let leaf = authority.sign(&host, hours(45)).unwrap();
            verify(&leaf, &root.certificate, "a.test", hours(45)).unwrap();
        }
        // Nothing changes where the clock is a little late.
        assert_eq!(authority.trusted_at(hours(40) - BACKDATED / 2).pem, second.pem);
    }
}
