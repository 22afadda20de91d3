//! AWS: any operation of any service that AWS's own models (`models`) tell of, signed.

mod answer;
mod credentials;
mod models;
mod request;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use keyless_core::{
    Authority, Code, Error, SafeText, Scheme, SigV4Request, SigV4Signer, sigv4_digest,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) use self::credentials::Credentials;
use self::{
    models::{Models, Operation, Service},
    request::{Asked, Draft as Written},
};
use super::{
    call::{Answer, Wanted},
    filling::Filling,
    provider::{escape, plain, set, withheld},
    providers,
    request::Request,
    xml,
};

const DATA: &str = include_str!("../../providers/aws.toml");
const DEFAULT_REGION: &str = "us-east-1";

/// What is known of AWS.
#[derive(Debug)]
pub(super) struct Aws {
    models: Models,
    data: Data,
}

/// What is not called, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    absent: BTreeMap<String, String>,
    streamed: BTreeMap<String, Vec<String>>,
    withheld: BTreeMap<String, Vec<String>>,
}

impl Aws {
    pub(super) fn bundled() -> Self {
        let data = toml::from_str(DATA).expect("a test reads it");
        Self { models: Models::bundled(), data }
    }

    /// A call of an operation that may be called, with parameters of its model, as they are before values are filled in.
    pub(super) fn draft(&self, wanted: Wanted<'_>) -> Result<Draft, Error> {
        let Wanted { service: name, operation, mut parameters, .. } = wanted;
        let service = self.service(name)?;
        let (title, operation) = self.operation(&service, name, operation)?;
        let asked = Asked { service: &service, title, operation };
        // Some operations have a parameter of this name themselves.
        let region = if asked.takes("region") { None } else { parameters.remove("region") };
        let region = region.map(|region| region_of(plain(&region))).transpose()?;
        let (_, prefix) = asked.draft(parameters.clone(), Timestamp::UNIX_EPOCH)?;
        let title = title.to_owned();
        Ok(Draft { service, title, region, prefix, parameters })
    }

    fn service(&self, name: &str) -> Result<Arc<Service>, Error> {
        self.models.service(name).ok_or_else(|| {
            let words = SafeText::words("no AWS service ").as_they_wrote(name);
            let words = match self.data.absent.get(name) {
                Some(why) => words.and(" is called here: ").as_they_wrote(why),
                None => words,
            };
            Error::with(Code::ProviderNotConfigured, words)
        })
    }

    fn operation<'a>(
        &self,
        service: &'a Service,
        name: &str,
        wanted: &str,
    ) -> Result<(&'a str, &'a Operation), Error> {
        let (title, operation) = service.operation(wanted).ok_or_else(|| {
            let words = SafeText::words("no operation ").as_they_wrote(name).and(".");
            let words = words.as_they_wrote(wanted);
            let words = if self.streams(name, wanted) {
                words.and(" is called here: it streams events, and an answer is one whole")
            } else {
                words
            };
            Error::with(Code::BadRequest, words)
        })?;
        let withheld_of = self.data.withheld.get(name);
        if withheld_of.is_some_and(|list| list.iter().any(|other| other == title)) {
            return Err(withheld());
        }
        Ok((title, operation))
    }

    /// Whether an operation that the models leave out is one of events.
    fn streams(&self, service: &str, operation: &str) -> bool {
        let asked = operation.replace('_', "");
        let mut streamed = self.data.streamed.get(service).into_iter().flatten();
        streamed.any(|title| title.eq_ignore_ascii_case(&asked))
    }

    /// An answer as data: by the model, or an error as it came.
    pub(super) fn data(&self, service: &str, operation: &str, answer: &Answer) -> Value {
        if !self.fails(service, operation, answer) {
            // What is not as the model says may have a credential anywhere.
            let data = self.asked(service, operation, |asked| answer::data(asked, answer));
            return data.flatten().unwrap_or_else(|| json!({"status": answer.status}));
        }
        let text = std::str::from_utf8(&answer.body).unwrap_or_default();
        let mut data = xml::to_json(text).unwrap_or_else(|| providers::data(answer));
        // Services that speak JSON in the way of REST say in a header what went wrong.
        if let (Some(kind), Some(members)) =
            (answer.header("x-amzn-errortype"), data.as_object_mut())
        {
            let kind = kind.split(':').next().unwrap_or_default();
            members.entry("__type").or_insert_with(|| kind.into());
        }
        data
    }

    /// Whether an answer is an error: S3 also has some that begin with 200.
    pub(super) fn fails(&self, service: &str, operation: &str, answer: &Answer) -> bool {
        let is_late = |asked: &Asked<'_>| answer::is_late_error(asked, answer);
        answer.status >= 300 || self.asked(service, operation, is_late).unwrap_or(false)
    }

    fn asked<T>(
        &self,
        service: &str,
        operation: &str,
        about: impl FnOnce(&Asked<'_>) -> T,
    ) -> Option<T> {
        let service = self.models.service(service)?;
        let (title, operation) = service.operation(operation)?;
        Some(about(&Asked { service: &service, title, operation }))
    }
}

/// A checked call of AWS's: its protocol writes values into what is signed, so that it is written once those are there.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    service: Arc<Service>,
    title: String,
    region: Option<String>,
    /// What stands before the host.
    prefix: String,
    parameters: Map<String, Value>,
}

/// One toward a host.
pub(super) struct Placed {
    draft: Draft,
    region: String,
    authority: Authority,
    host: String,
}

impl Draft {
    /// The call toward the region that its parameters or its credential say.
    pub(super) fn placed(mut self, credentials: &Credentials) -> Result<Placed, Error> {
        let region = match (self.region.take(), &credentials.region) {
            (Some(region), _) => region,
            (None, Some(region)) => region_of(region.clone())?,
            (None, None) => DEFAULT_REGION.to_owned(),
        };
        let (host, region) = self.service.place(&region).ok_or(Code::Internal)?;
        let host = format!("{}{host}", self.prefix);
        let authority =
            Authority::parse_for(&host, Scheme::Https).map_err(|_| Error::new(Code::BadRequest))?;
        Ok(Placed { draft: self, region: region.clone(), authority, host })
    }
}

impl Placed {
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The request with its values, signed. What is wrong with it then is not told in words, which could have a value in
    /// them.
    pub(super) fn filled(
        &self,
        filling: &mut Filling<'_>,
        credentials: &Credentials,
        now: Timestamp,
    ) -> Result<Request, Error> {
        let Draft { service, title, prefix, parameters, .. } = &self.draft;
        let (title, operation) = service.operation(title).ok_or(Code::Internal)?;
        let asked = Asked { service, title, operation };
        let filled = asked.draft(filling.object(parameters)?, now);
        let (mut draft, before) = filled.map_err(|error| Error::new(error.code()))?;
        if before != *prefix {
            return Err(Code::LocationNotAllowed.into());
        }
        let signer = SigV4Signer {
            access_key_id: &credentials.id,
            secret_access_key: credentials.key.as_bytes(),
            region: &self.region,
            service: &service.signing,
            now,
        };
        draft.sign(&signer, &self.host, credentials.token.as_deref().map(String::as_str));
        let query = draft.query();
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(Request {
            scheme: Scheme::Https,
            authority: self.authority.clone(),
            method: draft.method,
            target: format!("{}{mark}{query}", draft.path),
            headers: draft.headers,
            body: draft.body,
        })
    }
}

/// A region's name. It may be the credential's, so that it is not repeated.
fn region_of(region: String) -> Result<String, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if region.is_empty() || !region.bytes().all(plain) {
        return Err(Error::with(Code::BadRequest, "the region is no region's name".into()));
    }
    Ok(region)
}

impl Written {
    /// Adds what makes a request AWS's: the date, the digest, the signature.
    fn sign(&mut self, signer: &SigV4Signer<'_>, host: &str, token: Option<&str>) {
        let digest = sigv4_digest(&self.body);
        set(&mut self.headers, "x-amz-date", signer.time());
        set(&mut self.headers, "x-amz-content-sha256", digest.clone());
        if let Some(token) = token {
            set(&mut self.headers, "x-amz-security-token", token.to_owned());
        }
        let own = self.headers.iter().filter(|(name, _)| name != "accept");
        // Spaces side by side are signed as one.
        let own: Vec<(&str, zeroize::Zeroizing<String>)> = own
            .map(|(name, value)| {
                let words = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
                (name.as_str(), words.into())
            })
            .collect();
        let mut headers: Vec<(&str, &str)> =
            own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("host", host));
        // S3 signs its paths as they are, all others escape them once more.
        let path = match signer.service {
            "s3" => self.path.clone(),
            _ => self.path.split('/').map(escape).collect::<Vec<_>>().join("/"),
        };
        let query = self.query();
        let (method, path, query) = (&*self.method, &*path, &*query);
        let request = SigV4Request { method, path, query, headers, payload: &digest };
        let authorization = signer.authorization(request);
        set(&mut self.headers, "authorization", authorization);
    }

    /// The query, sorted as signatures want it.
    fn query(&self) -> String {
        let pair = |(name, value): &(String, String)| (escape(name), escape(value));
        let mut pairs: Vec<_> = self.query.iter().map(pair).collect();
        pairs.sort();
        let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{executor::Work, material::Materials};

    fn refused(service: &str, operation: &str) -> Code {
        let wanted = Wanted { provider: "aws", service, operation, parameters: Map::new() };
        Aws::bundled().draft(wanted).err().unwrap().code()
    }

    #[test]
    fn what_answers_with_credentials_is_withheld() {
        for (service, operation) in [
            ("sts", "assume_role"),
            ("sts", "assumerole"),
            ("secretsmanager", "GetSecretValue"),
            ("ssm", "get_parameter"),
            ("ecr", "get_authorization_token"),
        ] {
            assert_eq!(refused(service, operation), Code::ActionBlocked, "{service} {operation}");
        }
        assert_eq!(refused("none", "a"), Code::ProviderNotConfigured);
        assert_eq!(refused("s3", "nothing"), Code::BadRequest);
    }

    #[test]
    fn why_something_is_not_called_is_told() {
        let aws = Aws::bundled();
        let told = |service: &str, operation: &str| {
            let wanted = Wanted { provider: "aws", service, operation, parameters: Map::new() };
            let refused = aws.draft(wanted).err().unwrap();
            refused.message()
        };
        for (service, why) in &aws.data.absent {
            assert!(aws.models.service(service).is_none(), "{service}");
            assert!(told(service, "list").contains(why), "{service}");
        }
        for (service, titles) in &aws.data.streamed {
            let model = aws.models.service(service).unwrap();
            for title in titles {
                assert!(model.operation(title).is_none(), "{title}");
                assert!(told(service, title).contains("it streams events"), "{title}");
            }
        }
        assert!(told("kinesis", "subscribe_to_shard").contains("it streams events"));
        assert!(!told("kinesis", "nothing").contains("it streams events"));
    }

    #[test]
    fn an_error_is_told_whatever_it_begins_with() {
        let aws = Aws::bundled();
        let answer = |status, header: &str, body: &str| Answer {
            status,
            headers: vec![("x-amzn-errortype".to_owned(), header.to_owned().into())],
            body: body.as_bytes().to_vec().into(),
        };
        let missing = answer(404, "NotFound:http://x", r#"{"Message": "m"}"#);
        let told = aws.data("lambda", "get_function", &missing);
        assert_eq!(told, json!({"Message": "m", "__type": "NotFound"}));
        let late = answer(200, "", "<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>");
        assert!(aws.fails("s3", "copy_object", &late));
        assert_eq!(aws.data("s3", "copy_object", &late)["Code"], "SlowDown");
        assert!(!aws.fails("s3", "get_object", &late));
    }

    /// As botocore 1.43.11 signs it.
    #[test]
    fn a_key_is_signed_as_it_is() {
        let parameters = json!({"Bucket": "b", "Key": "a/../b"}).as_object().cloned().unwrap();
        let wanted = Wanted { provider: "aws", service: "s3", operation: "get_object", parameters };
        let credentials = Credentials::of("AKIA1:k").ok().unwrap();
        let placed = Aws::bundled().draft(wanted).and_then(|draft| draft.placed(&credentials));
        let (work, materials) = (Work::idle(), Materials::holding(Vec::new()));
        let placed = placed.ok().unwrap();
        let mut filling = Filling::new(&work, &materials, Scheme::Https, placed.authority());
        let call = placed.filled(&mut filling, &credentials, Timestamp::UNIX_EPOCH).ok().unwrap();
        assert_eq!(call.target, "/b/a/../b");
        let authorization = call.headers.iter().find(|(name, _)| name == "authorization").unwrap();
        let signature = "aa64a6daeccccb09f0403848e412f5d4073e2218be84a178e7986c39dd1b656a";
        assert!(authorization.1.ends_with(signature), "{}", *authorization.1);
    }

    #[test]
    fn what_is_withheld_is_there() {
        let aws = Aws::bundled();
        for (name, titles) in &aws.data.withheld {
            let service = aws.models.service(name).unwrap_or_else(|| panic!("{name}"));
            for title in titles {
                assert_eq!(service.operation(title).map(|(found, _)| found), Some(&**title));
            }
        }
    }
}
