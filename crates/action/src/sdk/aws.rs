//! AWS: any operation of the services in `providers/aws.toml`, by their HTTP protocols, signed.
//!
//! The credential is JSON as AWS's own tools write it (`AccessKeyId`, `SecretAccessKey`,
//! `SessionToken`, `region`), an INI profile, or `ID:KEY`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use keyless_core::{
    Authority, Code, Error, SafeText, Scheme, SigV4Request, SigV4Signer, sigv4_digest,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{
    call::{Answer, Call, Wanted},
    provider::{encoded, escape, plain, segment, set, withheld},
    providers,
    xml::{Shapes, to_json},
};

const DATA: &str = include_str!("../../providers/aws.toml");
const DEFAULT_REGION: &str = "us-east-1";

/// What is known of AWS's services.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aws {
    services: BTreeMap<String, Service>,
    s3: BTreeMap<String, Rest>,
    answers: Answers,
    withheld: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    protocol: Protocol,
    #[serde(default)]
    target: String,
    #[serde(default)]
    json: Option<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Json,
    Query,
    S3,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    method: String,
    path: String,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    lists: Vec<String>,
    numbers: Vec<String>,
}

/// A key pair, wherever it was written.
pub(super) struct Credentials {
    id: String,
    key: Zeroizing<String>,
    token: Option<Zeroizing<String>>,
    region: Option<String>,
}

/// A request before it is signed.
#[derive(Default)]
struct Draft {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, Zeroizing<String>)>,
    body: Zeroizing<Vec<u8>>,
}

impl Draft {
    /// Adds what makes a request AWS's: the date, the digest, the signature.
    fn sign(&mut self, signer: &SigV4Signer<'_>, host: &str, token: Option<&str>) {
        let digest = sigv4_digest(&self.body);
        set(&mut self.headers, "x-amz-date", signer.time());
        set(&mut self.headers, "x-amz-content-sha256", digest.clone());
        if let Some(token) = token {
            set(&mut self.headers, "x-amz-security-token", token.to_owned());
        }
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.trim()));
        let mut headers: Vec<(&str, &str)> =
            own.filter(|(name, _)| !["accept", "user-agent"].contains(name)).collect();
        headers.push(("host", host));
        let mut query = self.query.clone();
        query.sort();
        let (method, path, query) = (&*self.method, &*self.path, &*encoded(&query));
        let request = SigV4Request { method, path, query, headers, payload: &digest };
        let authorization = signer.authorization(request);
        set(&mut self.headers, "authorization", authorization);
    }
}

impl Aws {
    pub(super) fn bundled() -> Self {
        toml::from_str(DATA).expect("a test reads it")
    }

    /// Builds and signs a request.
    pub(super) fn build(
        &self,
        wanted: Wanted<'_>,
        credential: &str,
        now: Timestamp,
    ) -> Result<Call, Error> {
        let Wanted { service: name, operation, mut parameters, .. } = wanted;
        let credentials = Credentials::parse(credential).ok_or_else(|| {
            let words = SafeText::words("an AWS credential has AccessKeyId and SecretAccessKey");
            Error::with(Code::BadRequest, words)
        })?;
        let service = self.services.get(name).ok_or_else(|| {
            let words = SafeText::words("no AWS service ").as_they_wrote(name);
            Error::with(Code::ProviderNotConfigured, words)
        })?;
        let title = pascal(operation)?;
        let is_withheld =
            |list: &Vec<String>| list.iter().any(|other| other.eq_ignore_ascii_case(&title));
        if self.withheld.get(name).is_some_and(is_withheld) {
            return Err(withheld());
        }
        let region = parameters.remove("region").map(|region| plain(&region));
        let region = region.or(credentials.region.clone()).unwrap_or(DEFAULT_REGION.to_owned());
        let host = host(name, service, &region)?;
        let mut draft = match service.protocol {
            Protocol::Json => json_call(service, &title, &parameters)?,
            Protocol::Query => query_call(service, &title, &parameters),
            Protocol::S3 => self.s3_call(&title, parameters)?,
        };
        let signer = SigV4Signer {
            access_key_id: &credentials.id,
            secret_access_key: credentials.key.as_bytes(),
            region: &region,
            service: if name == "stepfunctions" { "states" } else { name },
            now,
        };
        draft.sign(&signer, &host, credentials.token.as_deref().map(String::as_str));
        let mark = if draft.query.is_empty() { "" } else { "?" };
        Ok(Call {
            scheme: Scheme::Https,
            authority: Authority::parse_for(&host, Scheme::Https)
                .map_err(|_| Error::new(Code::BadRequest))?,
            method: draft.method,
            target: format!("{}{mark}{}", draft.path, encoded(&draft.query)),
            headers: draft.headers,
            body: draft.body,
            patience: std::time::Duration::ZERO,
            max_answer: 0,
        })
    }

    /// An answer as data.
    pub(super) fn data(&self, service: &str, operation: &str, answer: &Answer) -> Value {
        let Ok(text) = std::str::from_utf8(&answer.body) else {
            let body = data_encoding::BASE64.encode(&answer.body);
            return json!({"status": answer.status, "body_base64": body});
        };
        let is_object = service == "s3" && pascal(operation).is_ok_and(|name| name == "GetObject");
        if is_object && answer.status < 300 {
            return json!({"Body": text});
        }
        let shapes = Shapes { lists: &self.answers.lists, numbers: &self.answers.numbers };
        match to_json(text, &shapes) {
            Some(data) => data,
            None => providers::data(answer),
        }
    }

    fn s3_call(&self, title: &str, mut parameters: Map<String, Value>) -> Result<Draft, Error> {
        let known = self.s3.iter().find(|(name, _)| pascal(name).is_ok_and(|name| name == title));
        let (_, rest) = known.ok_or_else(|| {
            let words = SafeText::words("no S3 operation ").as_they_wrote(title);
            Error::with(Code::BadRequest, words)
        })?;
        let (path, fixed) = rest.path.split_once('?').unwrap_or((&rest.path, ""));
        let mut draft = Draft { method: rest.method.clone(), ..Draft::default() };
        draft.path = path_of(path, &mut parameters)?;
        for pair in fixed.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            draft.query.push((name.to_owned(), value.to_owned()));
        }
        for (name, value) in parameters {
            if let Some(query) = rest.query.get(&name) {
                draft.query.push((query.clone(), plain(&value)));
            } else if let Some(header) = rest.headers.get(&name) {
                set(&mut draft.headers, header, plain(&value));
            } else if rest.body.as_ref() == Some(&name) {
                draft.body = Zeroizing::new(plain(&value).into_bytes());
            } else {
                let words = SafeText::words("the operation has no parameter ").as_they_wrote(&name);
                return Err(Error::with(Code::BadRequest, words));
            }
        }
        draft.query.sort();
        Ok(draft)
    }
}

impl Credentials {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(Value::Object(members)) = serde_json::from_str(text) {
            let pick =
                |names: [&str; 3]| names.iter().find_map(|name| members.get(*name)?.as_str());
            return Self::new(
                pick(["AccessKeyId", "aws_access_key_id", "access_key_id"])?,
                pick(["SecretAccessKey", "aws_secret_access_key", "secret_access_key"])?,
                pick(["SessionToken", "aws_session_token", "session_token"]),
                pick(["region", "Region", "aws_region"]),
            );
        }
        let lines: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        if let (Some(id), Some(key)) =
            (lines.get("aws_access_key_id"), lines.get("aws_secret_access_key"))
        {
            let (token, region) = (lines.get("aws_session_token"), lines.get("region"));
            return Self::new(id, key, token.copied(), region.copied());
        }
        let (id, key) = text.trim().split_once(':')?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric();
        id.bytes().all(plain).then(|| Self::new(id, key, None, None))?
    }

    fn new(id: &str, key: &str, token: Option<&str>, region: Option<&str>) -> Option<Self> {
        (!id.is_empty() && !key.is_empty()).then(|| Self {
            id: id.to_owned(),
            key: Zeroizing::new(key.to_owned()),
            token: token.map(|token| Zeroizing::new(token.to_owned())),
            region: region.map(str::to_owned),
        })
    }

    /// The parts that must not come back.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.key.as_str()).chain(self.token.as_ref().map(|token| token.as_str()))
    }
}

fn host(name: &str, service: &Service, region: &str) -> Result<String, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if region.is_empty() || !region.bytes().all(plain) {
        // It may be the credential's.
        return Err(Error::with(Code::BadRequest, "the region is no region's name".into()));
    }
    Ok(match &service.host {
        Some(host) if host.contains('.') => host.clone(),
        Some(host) => format!("{host}.{region}.amazonaws.com"),
        None => format!("{name}.{region}.amazonaws.com"),
    })
}

fn json_call(
    service: &Service,
    title: &str,
    parameters: &Map<String, Value>,
) -> Result<Draft, Error> {
    let body = serde_json::to_vec(parameters).map_err(|_| Error::new(Code::Internal))?;
    let version = service.json.as_deref().unwrap_or("1.1");
    let mut draft = Draft {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        body: Zeroizing::new(body),
        ..Draft::default()
    };
    set(&mut draft.headers, "content-type", format!("application/x-amz-json-{version}"));
    set(&mut draft.headers, "x-amz-target", format!("{}.{title}", service.target));
    Ok(draft)
}

/// EC2 numbers lists as `Name.1`, the others as `Name.member.1`.
fn query_call(service: &Service, title: &str, parameters: &Map<String, Value>) -> Draft {
    let mut pairs = vec![
        ("Action".to_owned(), title.to_owned()),
        ("Version".to_owned(), service.version.clone()),
    ];
    let member = if service.version == "2016-11-15" { "" } else { ".member" };
    for (name, value) in parameters {
        flatten(name, value, member, &mut pairs);
    }
    let mut draft = Draft {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        body: Zeroizing::new(encoded(&pairs).into_bytes()),
        ..Draft::default()
    };
    let media_type = "application/x-www-form-urlencoded; charset=utf-8";
    set(&mut draft.headers, "content-type", media_type.to_owned());
    draft
}

fn flatten(name: &str, value: &Value, member: &str, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            // EC2's model drops the plural: `InstanceIds` is `InstanceId.1` on the wire.
            let name =
                if member.is_empty() { name.strip_suffix('s').unwrap_or(name) } else { name };
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{name}{member}.{}", index + 1), item, member, pairs);
            }
        }
        Value::Object(members) => {
            for (inner, value) in members {
                flatten(&format!("{name}.{inner}"), value, member, pairs);
            }
        }
        Value::Null => {}
        other => pairs.push((name.to_owned(), plain(other))),
    }
}

/// `{Name}` is one segment, `{Name+}` may have several.
fn path_of(template: &str, parameters: &mut Map<String, Value>) -> Result<String, Error> {
    let mut path = String::new();
    for part in template.split('/').skip(1) {
        path.push('/');
        let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
            path.push_str(part);
            continue;
        };
        let (name, several) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
        let value = parameters.remove(name).map(|value| plain(&value)).unwrap_or_default();
        let written = if several {
            let parts = value.split('/').map(escape).collect::<Vec<_>>().join("/");
            let leaves = value.split('/').any(|part| part == "." || part == "..");
            (!value.is_empty() && !leaves).then_some(parts)
        } else {
            segment(&value)
        };
        path.push_str(&written.ok_or_else(|| {
            let words = SafeText::words("the operation needs a parameter: ").as_they_wrote(name);
            Error::with(Code::BadRequest, words)
        })?);
    }
    Ok(path)
}

/// `list_objects_v2` is `ListObjectsV2`, as boto3 has it; a name in AWS's own spelling stays.
fn pascal(operation: &str) -> Result<String, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if operation.is_empty() || !operation.bytes().all(plain) {
        let words = SafeText::words("no operation: ").as_they_wrote(operation);
        return Err(Error::with(Code::BadRequest, words));
    }
    let title = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    Ok(operation.split('_').filter_map(title).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_in_every_spelling() {
        for text in [
            r#"{"AccessKeyId": "AKIA1", "SecretAccessKey": "k/1", "region": "eu-west-1"}"#,
            "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = k/1\nregion = eu-west-1",
            "AKIA1:k/1",
        ] {
            let credentials = Credentials::parse(text).unwrap();
            assert_eq!((credentials.id.as_str(), credentials.key.as_str()), ("AKIA1", "k/1"));
        }
        assert!(Credentials::parse("just-a-token").is_none());
    }

    #[test]
    fn operations_and_lists_are_written_as_awss_models_say() {
        assert_eq!(pascal("list_objects_v2").unwrap(), "ListObjectsV2");
        assert_eq!(pascal("GetCallerIdentity").unwrap(), "GetCallerIdentity");
        let mut pairs = Vec::new();
        flatten("InstanceIds", &json!(["i-1"]), "", &mut pairs);
        flatten("Names", &json!(["a"]), ".member", &mut pairs);
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["InstanceId.1", "Names.member.1"]);
    }

    #[test]
    fn an_object_is_text_however_its_operation_is_spelled() {
        for operation in ["get_object", "GetObject", "getObject"] {
            let body = Zeroizing::new(b"<a><b>1</b></a>".to_vec());
            let answer = Answer { status: 200, headers: Vec::new(), body };
            let data = Aws::bundled().data("s3", operation, &answer);
            assert_eq!(data, json!({"Body": "<a><b>1</b></a>"}), "{operation}");
        }
    }

    #[test]
    fn what_answers_with_credentials_is_withheld() {
        let aws = Aws::bundled();
        for (service, operation) in
            [("sts", "assume_role"), ("secretsmanager", "GetSecretValue"), ("ssm", "get_parameter")]
        {
            let wanted = Wanted { provider: "aws", service, operation, parameters: Map::new() };
            let refused = aws.build(wanted, "AKIA1:k", Timestamp::UNIX_EPOCH).err().unwrap();
            assert_eq!(refused.code(), Code::ActionBlocked, "{service} {operation}");
        }
    }
}
