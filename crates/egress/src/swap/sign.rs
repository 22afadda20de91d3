//! Signatures that the proxy makes with keys that never leave it.
//!
//! A request that the agent signed for AWS with its placeholders is checked by them and signed anew
//! (`sign/aws.rs`), and so is each chunk of a payload that is signed in chunks (`sign/chunks.rs`); for a declared HMAC what the agent sent is dropped and the header set. Both come
//! last, over what is really sent. Source: design.md, section 5; reference/egress.md (c) 45.

mod aws;
mod chunks;
mod hmac;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header, request::Parts};
use http_body::Body;
use jiff::Timestamp;
use keyless_core::{Code, Error, HmacSigner, Location, Signer};

use self::aws::AwsRequest;
pub(super) use self::chunks::ChunkSigner;
pub use self::chunks::resigned;
use super::{
    Route,
    ledger::{Ledger, Values},
    plan::Sent,
    table::{Facts, SwapTable},
};
use crate::raw_target::RawTarget;

/// The largest body that is read to be signed: more than any AWS service takes whole but S3, which
/// signs its digest or none.
const MAX_SIGNED: u64 = 16 << 20;

const FOREIGN: &str =
    "it is signed for AWS with an access key id that is not this session's placeholder";

/// What will be signed once everything else is in its place.
pub(super) struct Signing {
    table: Arc<SwapTable>,
    aws: Option<(usize, AwsRequest)>,
    hmacs: Vec<usize>,
    /// The body takes part, so it has to be there as a whole.
    reads_body: bool,
}

impl Signing {
    /// Finds what is to be signed, checks what the agent signed, and reads the body where that
    /// takes part.
    pub(super) async fn prepare<B>(
        table: &Arc<SwapTable>,
        facts: &Facts,
        route: &Route<'_>,
        parts: &mut Parts,
        sent: &mut Sent<B>,
        ledger: &mut Ledger,
    ) -> Result<Self, Error>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut signing =
            Self { table: Arc::clone(table), aws: None, hmacs: Vec::new(), reads_body: false };
        if facts.signers.is_empty() {
            return Ok(signing);
        }
        if let Some((request, signer)) = signing.by_aws(facts, parts)? {
            if request.needs_body(parts)? {
                signing.read(sent).await?;
            }
            let placeholder = table.secret(signer).placeholder.as_str();
            let empty = Bytes::new();
            let body = sent.whole().unwrap_or(&empty);
            let request = request.checked(parts, route, body, placeholder.as_bytes())?;
            if ledger.choose(&[signer], Location::Header)?.is_some() {
                signing.aws = Some((signer, request));
            }
        }
        for header in signing.hmac_headers(facts) {
            let rivals: Vec<usize> = (facts.signers.iter().copied())
                .filter(|secret| signing.hmac(*secret).is_some_and(|hmac| hmac.header == header))
                .collect();
            if let Some(chosen) = ledger.choose(&rivals, Location::Header)? {
                signing.hmacs.push(chosen);
                parts.headers.insert(name_of(&header)?, HeaderValue::from_static(""));
                signing.read(sent).await?;
            }
        }
        Ok(signing)
    }

    async fn read<B>(&mut self, sent: &mut Sent<B>) -> Result<(), Error>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        self.reads_body = true;
        if sent.read_up_to(MAX_SIGNED).await? {
            Ok(())
        } else {
            Err(refused("its body takes part, and is longer than 16 MiB"))
        }
    }

    /// Signs the request as it will be sent; `body` is all of it where that was read. Gives what
    /// signs the body as it passes, where that is signed in chunks.
    pub(super) fn sign(
        &self,
        values: &Values,
        route: &Route<'_>,
        parts: &mut Parts,
        body: Option<&Bytes>,
    ) -> Result<Option<ChunkSigner>, Error> {
        let empty = Bytes::new();
        let body = match body {
            None if self.reads_body => return Err(refused("its body is too long once decoded")),
            body => body.unwrap_or(&empty),
        };
        if self.aws.is_some() || !self.hmacs.is_empty() {
            // What is signed here is the target as it stands.
            parts.extensions.remove::<RawTarget>();
        }
        for secret in &self.hmacs {
            if let Some(signer) = self.hmac(*secret) {
                hmac::sign(signer, values.open(*secret)?, parts, body)?;
            }
        }
        let Some((secret, request)) = &self.aws else { return Ok(None) };
        let key = values.open(*secret)?;
        let signature = request.sign(key, route, parts, body)?;
        let placeholder = self.table.secret(*secret).placeholder.as_str();
        request.chunks(placeholder.as_bytes(), key, parts, &signature)
    }

    /// The AWS signature of the request, and the key that belongs to its id.
    fn by_aws(&self, facts: &Facts, parts: &Parts) -> Result<Option<(AwsRequest, usize)>, Error> {
        if !aws::is_signed(parts) {
            return Ok(None);
        }
        let found = AwsRequest::find(parts);
        let id = match &found {
            Some(request) => Some(request.access_key_id().to_owned()),
            None => aws::older_key_id(parts),
        };
        let Some(signer) = id.and_then(|id| self.aws_signer(facts, &id)) else {
            let is_refused = facts.signers.iter().any(|secret| self.signs_for_aws(*secret));
            return if is_refused { Err(refused(FOREIGN)) } else { Ok(None) };
        };
        if parts.headers.get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
            return Err(refused("it has more than one field Authorization"));
        }
        let request = found.ok_or_else(|| {
            refused("it is signed by AWS's older method; have the client use Signature Version 4")
        })?;
        request.refuse_unsupported(parts)?;
        request.refuse_untimely(parts, Timestamp::now())?;
        Ok(Some((request, signer)))
    }

    /// Whether this key signs what goes to AWS: then nothing goes there that another key signed. One that was withdrawn
    /// does no more.
    fn signs_for_aws(&self, secret: usize) -> bool {
        let is_in_force = secret < self.table.in_force().len();
        is_in_force && matches!(self.table.secret(secret).rule.sign, Some(Signer::Aws { .. }))
    }

    /// The key that belongs to the access key id whose placeholder this is.
    fn aws_signer(&self, facts: &Facts, id: &str) -> Option<usize> {
        let is_ours = |secret: &usize| match &self.table.secret(*secret).rule.sign {
            Some(Signer::Aws { access_key_id }) => {
                let named = self.table.secret_at(access_key_id);
                named.is_some_and(|named| named.placeholder.as_str() == id)
            }
            _ => false,
        };
        facts.signers.iter().copied().find(is_ours)
    }

    fn hmac_headers(&self, facts: &Facts) -> Vec<String> {
        let signers = facts.signers.iter().filter_map(|secret| self.hmac(*secret));
        let mut headers: Vec<String> = signers.map(|hmac| hmac.header.clone()).collect();
        headers.dedup();
        headers
    }

    fn hmac(&self, secret: usize) -> Option<&HmacSigner> {
        match &self.table.secret(secret).rule.sign {
            Some(Signer::Hmac(signer)) => Some(signer),
            _ => None,
        }
    }
}

fn refused(why: &'static str) -> Error {
    Error::with(Code::SignatureRefused, why.into())
}

fn name_of(name: &str) -> Result<HeaderName, Error> {
    HeaderName::try_from(name).map_err(|_| Code::Internal.into())
}
