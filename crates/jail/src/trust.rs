//! Makes every runtime inside trust the session's certificate authority, with no setting of its own.
//!
//! The host's bundle with the CA added is bound over every bundle that programs read, the hashed
//! directory gets the CA's link, a JVM gets a key store, Chromium a database; the variables are set as
//! well, for programs that carry their own roots. Not done: the profiles of Firefox.
//!
//! Source: reference/egress.md (g).

use std::fs;

/// The session's CA alone, inside the jail.
pub const CA_IN_JAIL: &str = "/run/keyless/ca.pem";
/// The host's trusted certificates and the session's CA, inside the jail.
pub const BUNDLE_IN_JAIL: &str = "/run/keyless/bundle.pem";

/// The host's trusted certificates, PEM; empty when it has none.
pub fn system_bundle() -> String {
    // The first of the list: that is the order programs go by.
    let system = BUNDLES.iter().find_map(|path| fs::read(path).ok()).unwrap_or_default();
    let mut bundle = String::from_utf8_lossy(&system).into_owned();
    if !bundle.is_empty() && !bundle.ends_with('\n') {
        bundle.push('\n');
    }
    bundle
}

/// Files with all trusted certificates; the first that exists is the base of ours.
pub(crate) const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-bundle.crt",
    "/usr/lib/ssl/cert.pem",
    "/usr/local/ssl/cert.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
];

/// Each runtime's variable for trusted certificates, with its value inside the jail.
///
/// Where a variable adds to the runtime's own roots it names the CA alone, else the whole bundle.
pub fn trust_environment() -> Vec<(&'static str, &'static str)> {
    let whole = WHOLE_BUNDLE.iter().map(|name| (*name, BUNDLE_IN_JAIL));
    let added = CA_ALONE.iter().map(|name| (*name, CA_IN_JAIL));
    whole.chain(added).chain(SWITCHES.iter().copied()).collect()
}

/// Variables that replace the runtime's own roots.
const WHOLE_BUNDLE: &[&str] = &[
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",
    "CARGO_HTTP_CAINFO",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "CODEX_CA_CERTIFICATE",
    "COMPOSER_CAFILE",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HEX_CACERTS_PATH",
    "HTTPLIB2_CA_CERTS",
    "NIX_SSL_CERT_FILE",
    "PERL_LWP_SSL_CA_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "YARN_HTTPS_CA_FILE_PATH",
    "npm_config_cafile",
];

/// Variables that add to the runtime's own roots.
const CA_ALONE: &[&str] = &["NODE_EXTRA_CA_CERTS"];

/// Variables that make a runtime look at the system's roots, which are ours inside.
const SWITCHES: &[(&str, &str)] = &[
    ("DENO_TLS_CA_STORE", "system,mozilla"),
    ("NODE_USE_SYSTEM_CA", "1"),
    ("UV_NATIVE_TLS", "1"),
    ("UV_SYSTEM_CERTS", "1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_is_said_twice() {
        let mut names: Vec<_> = trust_environment().into_iter().map(|(name, _)| name).collect();
        let before = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
