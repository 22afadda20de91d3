//! Signatures that the proxy makes, so that the key never leaves it.
//!
//! `aws:PATH` signs AWS requests anew (SigV4), with PATH the secret that holds the access key's id.
//! `tls-client` signs TLS handshakes: the value is the key of a client certificate, which stands in
//! the same PEM text or, as `tls-client:PATH`, in another secret, which is a `tls-chain` then.
//! Everything else is a declared HMAC, one line of data:
//!
//! ```text
//! hmac-sha256 X-Slack-Signature=v0={hex} v0:{timestamp}:{body} X-Slack-Request-Timestamp
//!             header and its form        what is signed        header with the time, if one
//! ```

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::injection::header_name;
use crate::{PathError, SecretPath};

/// How a secret signs requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Signer {
    /// AWS Signature Version 4.
    Aws {
        /// The secret with the access key's id, whose placeholder says that a request is ours.
        access_key_id: SecretPath,
    },
    /// A header with an HMAC.
    Hmac(HmacSigner),
    /// The certificates of a client, without the key.
    TlsChain,
    /// The handshakes of TLS connections that a client certificate authenticates.
    TlsClient {
        /// The secret with the certificates, if they are not beside the key.
        chain: Option<SecretPath>,
    },
}

/// A declared HMAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacSigner {
    /// The hash below it.
    pub hash: SignatureHash,
    /// The header that takes the signature, in lower case.
    pub header: String,
    /// What stands in that header.
    pub form: Vec<Piece>,
    /// What is signed.
    pub message: Vec<Piece>,
    /// The header that takes the time, in lower case.
    pub timestamp_header: Option<String>,
}

/// The hash of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureHash {
    /// For receivers of long ago.
    Sha1,
    /// What everybody uses.
    Sha256,
}

/// A part of a signed message, or of the header's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The signature in base64; in a form only.
    Base64,
    /// The body; in a message only.
    Body,
    /// The signature in lower hexadecimal; in a form only.
    Hex,
    /// The method; in a message only.
    Method,
    /// The path as it is sent; in a message only.
    Path,
    /// The query as it is sent, without `?`; in a message only.
    Query,
    /// Itself.
    Text(String),
    /// The time in seconds since 1970.
    Timestamp,
}

/// Signers that many services share, by name.
const KNOWN: [(&str, &str); 3] = [
    ("github-webhook", "hmac-sha256 X-Hub-Signature-256=sha256={hex} {body}"),
    (
        "slack-webhook",
        "hmac-sha256 X-Slack-Signature=v0={hex} v0:{timestamp}:{body} X-Slack-Request-Timestamp",
    ),
    ("stripe-webhook", "hmac-sha256 Stripe-Signature=t={timestamp},v1={hex} {timestamp}.{body}"),
];

/// Why a text is not a [`Signer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// After `aws:` comes a path.
    #[error("after `aws:` comes the path of the secret with the access key's id: {0}")]
    AccessKeyId(PathError),
    /// After `tls-client:` comes a path.
    #[error("after `tls-client:` comes the path of the secret with the certificates: {0}")]
    Chain(PathError),
    /// A name that is no header's, or one that belongs to the message.
    #[error("the signature's and the time's headers are names that a signature may stand in")]
    Header,
    /// The form has no signature, or a word that it can't have.
    #[error("the form has {{hex}} or {{base64}} once, {{timestamp}} and other text")]
    Form,
    /// The message has a word that it can't have, or no body.
    #[error("the message has {{body}}, and maybe {{timestamp}}, {{method}}, {{path}}, {{query}}")]
    Message,
    /// Not one of the words.
    #[error(
        "one of aws:PATH, tls-client, tls-client:PATH, tls-chain, github-webhook, slack-webhook, \
         stripe-webhook, or `hmac-sha256 HEADER=FORM MESSAGE [TIME-HEADER]`"
    )]
    Unknown,
}

impl Signer {
    /// Parses a setting.
    pub fn parse(text: &str) -> Result<Self, SignerError> {
        if let Some(path) = text.strip_prefix("aws:") {
            let access_key_id = SecretPath::parse(path).map_err(SignerError::AccessKeyId)?;
            return Ok(Self::Aws { access_key_id });
        }
        if let Some(path) = text.strip_prefix("tls-client:") {
            let chain = SecretPath::parse(path).map_err(SignerError::Chain)?;
            return Ok(Self::TlsClient { chain: Some(chain) });
        }
        match text {
            "tls-chain" => return Ok(Self::TlsChain),
            "tls-client" => return Ok(Self::TlsClient { chain: None }),
            _ => {}
        }
        let known = KNOWN.iter().find(|(name, _)| *name == text);
        HmacSigner::parse(known.map_or(text, |(_, line)| *line)).map(Self::Hmac)
    }

    /// The other secret that it takes to sign.
    pub fn companion(&self) -> Option<&SecretPath> {
        match self {
            Self::Aws { access_key_id } => Some(access_key_id),
            Self::TlsClient { chain } => chain.as_ref(),
            Self::Hmac(_) | Self::TlsChain => None,
        }
    }

    /// Whether the value is PEM, for TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::TlsChain | Self::TlsClient { .. })
    }
}

impl HmacSigner {
    fn parse(line: &str) -> Result<Self, SignerError> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (hash, header, message, time) = match words[..] {
            [hash, header, message] => (hash, header, message, None),
            [hash, header, message, time] => (hash, header, message, Some(time)),
            _ => return Err(SignerError::Unknown),
        };
        let hash = match hash {
            "hmac-sha1" => SignatureHash::Sha1,
            "hmac-sha256" => SignatureHash::Sha256,
            _ => return Err(SignerError::Unknown),
        };
        let (header, form) = header.split_once('=').ok_or(SignerError::Form)?;
        let name = |name| header_name(name).map_err(|_| SignerError::Header);
        let form = pieces(form).ok_or(SignerError::Form)?;
        let message = pieces(message).ok_or(SignerError::Message)?;
        let signatures = form.iter().filter(|piece| piece.is_signature()).count();
        if signatures != 1 || form.iter().any(Piece::is_of_message) {
            return Err(SignerError::Form);
        }
        // Without the body a signature would say nothing of what is asked.
        if message.iter().any(Piece::is_signature) || !message.contains(&Piece::Body) {
            return Err(SignerError::Message);
        }
        let timestamp_header = time.map(name).transpose()?;
        Ok(Self { hash, header: name(header)?, form, message, timestamp_header })
    }
}

impl Piece {
    const WORDS: [(&'static str, Self); 7] = [
        ("{base64}", Self::Base64),
        ("{body}", Self::Body),
        ("{hex}", Self::Hex),
        ("{method}", Self::Method),
        ("{path}", Self::Path),
        ("{query}", Self::Query),
        ("{timestamp}", Self::Timestamp),
    ];

    fn is_signature(&self) -> bool {
        matches!(self, Self::Base64 | Self::Hex)
    }

    fn is_of_message(&self) -> bool {
        matches!(self, Self::Body | Self::Method | Self::Path | Self::Query)
    }
}

fn pieces(mut text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let word = Piece::WORDS.iter().find(|(word, _)| text.starts_with(word));
        if let Some((word, piece)) = word {
            pieces.push(piece.clone());
            text = &text[word.len()..];
            continue;
        }
        let end = text.find('{').unwrap_or(text.len());
        let plain = &text[..end];
        if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        pieces.push(Piece::Text(plain.to_owned()));
        text = &text[end..];
    }
    Some(pieces)
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, piece)| piece == self);
        match (self, word) {
            (Self::Text(text), _) => f.write_str(text),
            (_, Some((word, _))) => f.write_str(word),
            (_, None) => Ok(()),
        }
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HmacSigner { hash, header, form, message, timestamp_header } = match self {
            Self::Aws { access_key_id } => return write!(f, "aws:{access_key_id}"),
            Self::TlsChain => return f.write_str("tls-chain"),
            Self::TlsClient { chain: None } => return f.write_str("tls-client"),
            Self::TlsClient { chain: Some(chain) } => return write!(f, "tls-client:{chain}"),
            Self::Hmac(signer) => signer,
        };
        let hash = match hash {
            SignatureHash::Sha1 => "hmac-sha1",
            SignatureHash::Sha256 => "hmac-sha256",
        };
        write!(f, "{hash} {header}=")?;
        form.iter().try_for_each(|piece| write!(f, "{piece}"))?;
        f.write_str(" ")?;
        message.iter().try_for_each(|piece| write!(f, "{piece}"))?;
        timestamp_header.iter().try_for_each(|name| write!(f, " {name}"))
    }
}

impl FromStr for Signer {
    type Err = SignerError;

    fn from_str(text: &str) -> Result<Self, SignerError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Signer {
    type Error = SignerError;

    fn try_from(text: String) -> Result<Self, SignerError> {
        Self::parse(&text)
    }
}

impl From<Signer> for String {
    fn from(signer: Signer) -> Self {
        signer.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_and_write_back() {
        for text in [
            "aws:team/aws/access-key-id",
            "tls-chain",
            "tls-client",
            "tls-client:team/corp/client-chain",
            "hmac-sha1 x-signature={base64} {method}{path}?{query}{timestamp}{body}",
        ] {
            assert_eq!(Signer::parse(text).unwrap().to_string(), text);
        }
        for (name, line) in KNOWN {
            let signer = Signer::parse(name).unwrap();
            assert_eq!(signer, Signer::parse(line).unwrap());
            assert_eq!(Signer::parse(&signer.to_string()).unwrap(), signer);
        }
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        for (text, why) in [
            ("", SignerError::Unknown),
            ("gcp:a", SignerError::Unknown),
            ("hmac-md5 X={hex} {body}", SignerError::Unknown),
            ("hmac-sha256 X={hex} {body} Y Z", SignerError::Unknown),
            ("hmac-sha256 X {body}", SignerError::Form),
            ("hmac-sha256 X=v1 {body}", SignerError::Form),
            ("hmac-sha256 X={hex}{hex} {body}", SignerError::Form),
            ("hmac-sha256 X={hex}{body} {body}", SignerError::Form),
            ("hmac-sha256 X={hex} {timestamp}", SignerError::Message),
            ("hmac-sha256 X={hex} {body}{unknown}", SignerError::Message),
            ("hmac-sha256 Host={hex} {body}", SignerError::Header),
        ] {
            assert_eq!(Signer::parse(text), Err(why), "{text}");
        }
        assert!(matches!(Signer::parse("aws:key"), Err(SignerError::AccessKeyId(_))));
        assert!(matches!(Signer::parse("tls-client:"), Err(SignerError::Chain(_))));
    }
}
