//! The providers that are known: those that come with Keyless, and the operator's own.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

use data_encoding::BASE64;
use keyless_core::{Code, Error, SafeText, database::DATABASE_PROVIDER};
use serde_json::{Value, json};

use super::{
    aws::Aws,
    call::{Answer, Draft, Of, Wanted},
    openapi::Document,
    postgres,
    provider::Provider,
};

const BUNDLED: [&str; 7] = [
    include_str!("../../providers/anthropic.toml"),
    include_str!("../../providers/github.toml"),
    include_str!("../../providers/gitlab.toml"),
    include_str!("../../providers/jira.toml"),
    include_str!("../../providers/openai.toml"),
    include_str!("../../providers/slack.toml"),
    include_str!("../../providers/stripe.toml"),
];

/// Every provider.
#[derive(Debug)]
pub struct Providers {
    named: BTreeMap<String, Provider>,
    /// OpenAPI documents: the services of the provider `http`.
    documents: BTreeMap<String, Document>,
    aws: Aws,
    /// The providers and documents of the operator that can't be used.
    faults: Vec<ProviderFault>,
}

/// What is in the operator's folder.
#[derive(Default)]
struct Own {
    named: BTreeMap<String, Provider>,
    documents: BTreeMap<String, Document>,
    faults: Vec<ProviderFault>,
}

/// A file of the operator's that can't be used, or an operation of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFault {
    /// Its name, without the folder.
    pub file: String,
    /// The operation of it that can't be called, as `METHOD /path`; nothing where the whole file is left out.
    pub operation: Option<String>,
    /// What is wrong with it.
    pub why: String,
}

impl Providers {
    /// Those that come with Keyless.
    pub fn bundled() -> Self {
        let read = |text| -> Provider {
            toml::from_str(text).expect("a test reads every bundled provider")
        };
        let named = BUNDLED.iter().map(|text| read(text));
        let named = named.map(|provider| (provider.name.clone(), provider)).collect();
        Self { named, documents: BTreeMap::new(), aws: Aws::bundled(), faults: Vec::new() }
    }

    /// With the operator's own: `NAME.toml` is a provider, `NAME.json` an OpenAPI document, service
    /// `NAME` of the provider `http`. A folder that is not there has none; a file that can't be used is left out.
    #[must_use]
    pub fn with_folder(mut self, folder: &Path) -> Self {
        let Own { named, documents, faults } = Own::read(folder);
        self.named.extend(named);
        self.documents.extend(documents);
        self.faults.extend(faults);
        self
    }

    /// What in the operator's folder can't be used.
    pub fn faults_in(folder: &Path) -> Vec<ProviderFault> {
        Own::read(folder).faults
    }

    /// A call of an operation, as far as its parameters say without a value.
    pub(crate) fn draft(&self, wanted: Wanted<'_>) -> Result<Draft, Error> {
        match wanted.provider {
            DATABASE_PROVIDER => {
                let statement = postgres::Statement::new(wanted)?;
                Ok(Draft { of: Of::Database(statement), category: None })
            }
            "aws" => {
                Ok(Draft { of: Of::Aws(self.aws.draft(wanted)?), category: Some("aws".to_owned()) })
            }
            // A service of `http` is one of the operator's: no category is called after it.
            "http" => {
                let service = wanted.service;
                let document = self.documents.get(service);
                let document = document.ok_or_else(|| self.unknown("http service ", service))?;
                Ok(Draft { of: Of::Http(document.draft(wanted)?), category: None })
            }
            name => {
                let provider = self.named.get(name).ok_or_else(|| self.unknown("", name))?;
                let draft = provider.draft(wanted)?;
                // Not where an agent's word is part of the host.
                let has_own_host = !provider.base.contains('{');
                Ok(Draft {
                    of: Of::Http(draft),
                    category: has_own_host.then(|| provider.name.clone()),
                })
            }
        }
    }

    /// With one more document.
    #[cfg(test)]
    pub(super) fn with_document(mut self, name: &str, document: &Value) -> Self {
        self.documents.insert(name.to_owned(), Document::read(name, document).unwrap());
        self
    }

    fn unknown(&self, what: &'static str, name: &str) -> Error {
        let words = SafeText::words("no provider ").and(what).as_they_wrote(name);
        let is_of = |fault: &&ProviderFault| {
            let stem = fault.file.rsplit_once('.').map(|(stem, _)| stem);
            fault.operation.is_none() && stem == Some(name)
        };
        let words = match self.faults.iter().find(is_of) {
            None => words,
            Some(fault) => words
                .and(": its file ")
                .as_they_wrote(&fault.file)
                .and(" can't be used; keyless doctor tells the operator why"),
        };
        Error::with(Code::ProviderNotConfigured, words)
    }

    /// Whether an answer is no success. A redirect is none: it is not followed.
    pub(super) fn fails(
        &self,
        provider: &str,
        service: &str,
        operation: &str,
        answer: &Answer,
    ) -> bool {
        match provider {
            "aws" => self.aws.fails(service, operation, answer),
            _ => answer.status >= 300,
        }
    }

    /// An answer as data: AWS's by its models, else as [`data`].
    pub(super) fn data(
        &self,
        provider: &str,
        service: &str,
        operation: &str,
        answer: &Answer,
    ) -> Value {
        if provider == "aws" {
            return self.aws.data(service, operation, answer);
        }
        data(answer)
    }
}

/// JSON as it is, other text as it is, and bytes in base64.
pub(super) fn data(answer: &Answer) -> Value {
    if answer.body.is_empty() {
        return json!({"status": answer.status});
    }
    let media_type = answer.header("content-type").unwrap_or_default();
    if media_type.trim_start().starts_with("application/x-www-form-urlencoded") {
        return pairs(&answer.body);
    }
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| {
        let status = answer.status;
        match str::from_utf8(&answer.body) {
            Ok(text) => json!({ "status": status, "body": text }),
            Err(_) => json!({ "status": status, "body_base64": BASE64.encode(&answer.body) }),
        }
    })
}

/// A form, as a service answers with one (RFC 6749's ancestors do), by its names.
fn pairs(body: &[u8]) -> Value {
    let pairs = form_urlencoded::parse(body);
    Value::Object(pairs.map(|(name, value)| (name.into_owned(), value.into())).collect())
}

/// Names that are no file's to take.
const TAKEN: [&str; 3] = ["aws", DATABASE_PROVIDER, "http"];

impl Own {
    fn read(folder: &Path) -> Self {
        let mut own = Self::default();
        let files = match fs::read_dir(folder) {
            Ok(files) => files,
            Err(error) if error.kind() == ErrorKind::NotFound => return own,
            Err(error) => {
                let file = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                own.faults.push(ProviderFault { file, operation: None, why: unread(&error) });
                return own;
            }
        };
        let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for path in files {
            let Some(file) = path.file_name().map(|name| name.to_string_lossy().into_owned())
            else {
                continue;
            };
            if let Err(why) = own.add(&path, &file) {
                own.faults.push(ProviderFault { file, operation: None, why });
            }
        }
        own
    }

    fn add(&mut self, path: &Path, file: &str) -> Result<(), String> {
        let Some((stem, kind)) = file.rsplit_once('.') else { return Ok(()) };
        let text = || {
            // A FIFO would be waited for.
            match fs::metadata(path) {
                Ok(about) if !about.is_file() => Err("it is no regular file".to_owned()),
                _ => fs::read_to_string(path).map_err(|error| unread(&error)),
            }
        };
        match kind {
            "toml" => {
                let text = text()?;
                let read = toml::from_str(&text).map_err(|error| at_line(&text, &error));
                let provider: Provider = read?;
                provider.check()?;
                if TAKEN.contains(&&*provider.name) {
                    return Err(format!("no file can be the provider `{}`", provider.name));
                }
                if self.named.contains_key(&provider.name) {
                    return Err(format!("another file is the provider `{}`", provider.name));
                }
                self.named.insert(provider.name.clone(), provider);
            }
            "json" => {
                let read = serde_json::from_str(&text()?).map_err(|error| error.to_string());
                let document: Value = read?;
                let document = Document::read(stem, &document)?;
                let fault = |(place, why): (&str, &str)| ProviderFault {
                    file: file.to_owned(),
                    operation: Some(place.to_owned()),
                    why: why.to_owned(),
                };
                self.faults.extend(document.refused().map(fault));
                self.documents.insert(stem.to_owned(), document);
            }
            "yaml" | "yml" => {
                return Err("YAML is not read: write the document as JSON".to_owned());
            }
            _ => {}
        }
        Ok(())
    }
}

fn unread(error: &std::io::Error) -> String {
    format!("it can't be read: {}", error.kind())
}

/// What is wrong, and where: without the lines around it.
fn at_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {}", before.matches('\n').count() + 1, error.message()),
        None => error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::{
        executor::Work,
        material::Materials,
        sdk::{filling::Filling, request::Request},
    };

    fn build(
        providers: &Providers,
        provider: &str,
        service: &str,
        operation: &str,
        parameters: Value,
    ) -> Result<Request, Error> {
        let Value::Object(parameters) = parameters else { panic!("an object") };
        let draft = providers.draft(Wanted { provider, service, operation, parameters })?;
        let Of::Http(draft) = draft.of else { panic!("HTTP") };
        let (work, materials) = (Work::idle(), Materials::holding(Vec::new()));
        let authority = draft.authority.clone();
        let mut filling = Filling::new(&work, &materials, draft.scheme, &authority);
        draft.filled(&mut filling, "me:token")
    }

    #[track_caller]
    fn check(request: (&str, &str, &str, Value), line: &str, header: (&str, &str), body: &str) {
        let (provider, service, operation, parameters) = request;
        let call = build(&Providers::bundled(), provider, service, operation, parameters).unwrap();
        assert_eq!(format!("{} {}{}", call.method, call.authority, call.target), line);
        let found = call.headers.iter().find(|(name, _)| name == header.0);
        assert_eq!(found.map(|(_, value)| value.as_str()), Some(header.1));
        assert_eq!(String::from_utf8_lossy(&call.body), body);
    }

    #[test]
    fn bytes_that_are_no_text_come_in_base64() {
        let told = |body: &[u8]| {
            let body = Zeroizing::new(body.to_vec());
            data(&Answer { status: 200, headers: Vec::new(), body })
        };
        assert_eq!(told(b"[1]"), json!([1]));
        assert_eq!(told("caf\u{e9}".as_bytes()), json!({ "status": 200, "body": "caf\u{e9}" }));
        assert_eq!(told(b"\x1f\x8b\x08\xff"), json!({ "status": 200, "body_base64": "H4sI/w==" }));
        assert_eq!(told(b""), json!({ "status": 200 }));
    }

    #[test]
    fn each_provider_is_called_as_it_wants() {
        let bearer = ("authorization", "Bearer me:token");
        check(
            ("github", "issues", "create", json!({"owner": "a", "repo": "b/c", "title": "t"})),
            "POST api.github.com:443/repos/a/b%2Fc/issues",
            bearer,
            r#"{"title":"t"}"#,
        );
        check(
            ("github", "rest", "GET /user/repos", json!({"per_page": 5})),
            "GET api.github.com:443/user/repos?per_page=5",
            bearer,
            "",
        );
        check(
            ("gitlab", "projects", "get", json!({"id": "g/p"})),
            "GET gitlab.com:443/api/v4/projects/g%2Fp",
            ("private-token", "me:token"),
            "",
        );
        check(
            ("stripe", "charges", "create", json!({"amount": 5, "metadata": {"a": ["x"]}})),
            "POST api.stripe.com:443/v1/charges",
            bearer,
            "amount=5&metadata%5Ba%5D%5B0%5D=x",
        );
        check(
            ("slack", "chat", "postMessage", json!({"channel": "#a"})),
            "POST slack.com:443/api/chat.postMessage",
            bearer,
            "channel=%23a",
        );
        // What is newer than the list.
        check(
            ("slack", "rest", "POST /chat.sendNow", json!({"channel": "#a"})),
            "POST slack.com:443/api/chat.sendNow",
            bearer,
            "channel=%23a",
        );
        check(
            ("openai", "models", "list", json!({})),
            "GET api.openai.com:443/v1/models",
            bearer,
            "",
        );
        check(
            ("anthropic", "messages", "create", json!({"model": "m"})),
            "POST api.anthropic.com:443/v1/messages",
            ("x-api-key", "me:token"),
            r#"{"model":"m"}"#,
        );
        check(
            ("jira", "issues", "get", json!({"site": "acme", "issueIdOrKey": "A-1"})),
            "GET acme.atlassian.net:443/rest/api/3/issue/A-1",
            ("authorization", "Basic bWU6dG9rZW4="),
            "",
        );
    }

    #[test]
    fn what_leads_astray_is_refused() {
        let refused = |provider, service, operation, parameters| {
            build(&Providers::bundled(), provider, service, operation, parameters)
                .err()
                .unwrap()
                .code()
        };
        let none = || json!({});
        assert_eq!(refused("nobody", "a", "b", none()), Code::ProviderNotConfigured);
        assert_eq!(refused("github", "a", "b", none()), Code::BadRequest);
        assert_eq!(refused("github", "rest", "GET /a/../b", none()), Code::BadRequest);
        assert_eq!(refused("github", "rest", "GET //evil.test", none()), Code::BadRequest);
        assert_eq!(refused("slack", "oauth", "v2.access", none()), Code::ActionBlocked);
        // An operation that a service has not is not the service's to say.
        assert_eq!(refused("slack", "chat", "postMesage", none()), Code::BadRequest);
        assert_eq!(refused("slack", "chat.", "postMessage", none()), Code::BadRequest);
        assert_eq!(refused("stripe", "charge", "list", none()), Code::BadRequest);
        assert_eq!(refused("stripe", "charges", "delete", json!({"id": "c"})), Code::BadRequest);
        assert_eq!(
            refused("gitlab", "rest", "GET /projects/1/variables", none()),
            Code::ActionBlocked
        );
        let site = json!({"site": "evil.test/", "issueIdOrKey": "A-1"});
        assert_eq!(refused("jira", "issues", "get", site), Code::BadRequest);
        let dots = json!({"owner": "..", "repo": "b"});
        assert_eq!(refused("github", "repos", "get", dots), Code::BadRequest);
        // A server may decode what is escaped before it looks for dots.
        let dots = json!({"owner": "a", "repo": "b/../../../user"});
        assert_eq!(refused("github", "repos", "get", dots), Code::BadRequest);
    }

    #[test]
    fn a_file_that_can_not_be_used_is_named_and_the_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let own = |name: &str| {
            format!(
                "name = {name:?}\nbase = \"https://own.test\"\nauth = {{ scheme = \"bearer\" }}\n"
            )
        };
        let document = json!({"openapi": "3.0.0", "servers": [{"url": "https://own.test"}],
            "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
            "paths": {"/a": {"get": {}, "trace": {}}}});
        for (file, text) in [
            ("own.toml", own("own")),
            ("twin.toml", own("own")),
            ("taken.toml", own("aws")),
            ("base.toml", own("base").replace("https://own.test", "own.test")),
            ("wrong.toml", own("wrong") + "no = 1\n"),
            ("good.json", document.to_string()),
            ("bad.json", "{".to_owned()),
            ("other.yaml", String::new()),
            ("README", String::new()),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        fs::create_dir(folder.path().join("folder.toml")).unwrap();
        let providers = Providers::bundled().with_folder(folder.path());
        let found = |fault: &ProviderFault| {
            let ProviderFault { file, operation, why } = fault;
            format!("{file} {}: {why}", operation.as_deref().unwrap_or("-"))
        };
        let found: Vec<String> = providers.faults.iter().map(found).collect();
        for (found, begin) in found.iter().zip([
            "bad.json -: EOF while parsing",
            "base.toml -: `base` is no address",
            "folder.toml -: it is no regular file",
            "good.json TRACE /a: OPTIONS and TRACE are not called",
            "other.yaml -: YAML is not read",
            "taken.toml -: no file can be the provider `aws`",
            "twin.toml -: another file is the provider `own`",
            "wrong.toml -: line 4: unknown field `no`",
        ]) {
            assert!(found.starts_with(begin), "{found} / {begin}");
        }
        assert_eq!(found.len(), 8, "{found:?}");
        assert_eq!(Providers::faults_in(folder.path()), providers.faults);
        assert!(build(&providers, "own", "rest", "GET /a", json!({})).is_ok());
        assert!(build(&providers, "http", "good", "GET /a", json!({})).is_ok());
        // Who calls the other is told, and not where the file is.
        let told = build(&providers, "http", "bad", "a", json!({})).err().unwrap();
        assert_eq!(told.code(), Code::ProviderNotConfigured);
        assert!(told.message().contains("its file bad.json can't be used"), "{told:?}");
        assert!(!told.message().contains(&*folder.path().to_string_lossy()), "{told:?}");
    }

    #[test]
    fn a_form_is_data_by_its_names() {
        let answer = |media_type: &str| Answer {
            status: 200,
            headers: vec![("content-type".to_owned(), media_type.to_owned().into())],
            body: b"access_token=a%2Bb&scope=x+y&".to_vec().into(),
        };
        let form = data(&answer("application/x-www-form-urlencoded; charset=utf-8"));
        assert_eq!(form, json!({"access_token": "a+b", "scope": "x y"}));
        assert_eq!(data(&answer("text/plain"))["status"], 200);
    }

    /// Before a value is opened, and a use of a grant taken.
    #[test]
    fn what_can_never_be_sent_is_refused_at_first() {
        let headed = r#"{"openapi": "3.1.0", "servers": [{"url": "https://api.test"}],
            "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}, "paths": {"/a": {"get": {
            "operationId": "read", "parameters": [{"name": "x-of", "in": "header"}]}}}}"#;
        let document = serde_json::from_str(headed).unwrap();
        let providers = Providers::bundled().with_document("own", &document);
        let check = |provider, service, operation, parameters: Value| {
            let Value::Object(parameters) = parameters else { panic!("an object") };
            let draft = providers.draft(Wanted { provider, service, operation, parameters });
            draft.map(drop).map_err(|error| error.code())
        };
        let refused = Err(Code::BadRequest);
        let long = "x".repeat(70_000);
        assert_eq!(check("github", "rest", "GET /user", json!({"a": "b"})), Ok(()));
        assert_eq!(check("github", "rest", "GET /us`er", json!({})), refused);
        assert_eq!(check("github", "rest", "GET /user", json!({"a": long})), refused);
        assert_eq!(check("github", "rest", "POST /user", json!({"a": long})), Ok(()));
        // What a placeholder stands for may be shorter.
        let filled = json!({"a": format!("{{{{nl:{}}}}}", "x".repeat(70_000))});
        assert_eq!(check("github", "rest", "GET /user", filled), Ok(()));
        assert_eq!(check("http", "own", "read", json!({"x-of": "a b"})), Ok(()));
        assert_eq!(check("http", "own", "read", json!({"x-of": "a\nb"})), refused);
        assert_eq!(check("http", "own", "read", json!({"x-of": "\u{fc}"})), refused);
        // By AWS's models, as it is before anything is filled in.
        let bucket = json!({"Bucket": "a", "region": "eu-west-1"});
        assert_eq!(check("aws", "s3", "list_objects_v2", bucket), Ok(()));
        assert_eq!(check("aws", "s3", "list_objects_v2", json!({})), refused);
        assert_eq!(check("aws", "s3", "list_objects_v2", json!({"Bucket": "a", "No": 1})), refused);
    }
}
