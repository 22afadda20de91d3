//! What asking and putting come to, by what AWS answers to each call.

use std::sync::Mutex;

use keyless_core::Binding;

use super::*;
use crate::source::http::HttpFault;

type Answers = &'static [(&'static str, u16, &'static str)];

/// Answers `target`s by the table, and notes who asked.
struct Aws(Answers, Mutex<Vec<String>>);

impl SourceHttp for Aws {
    fn send(&self, request: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
        let target = request.headers.iter().find(|(name, _)| name == "x-amz-target").unwrap();
        let target = target.1.rsplit('.').next().unwrap().to_owned();
        let (_, status, body) = self.0.iter().find(|(known, ..)| *known == target).unwrap();
        self.1.lock().unwrap().push(target);
        let body = Zeroizing::new(body.as_bytes().to_vec());
        Box::pin(async move { Ok(HttpAnswer { status: *status, body }) })
    }
}

fn value(text: &str) -> SecretValue {
    let path = SecretPath::parse("team/api/token").unwrap();
    SecretValue::new(path, text.as_bytes().to_vec(), Binding::None).unwrap()
}

fn with_key() -> Supply {
    Supply::new(Some(value("key")), Vec::new())
}

fn source(service: AwsService, http: &Arc<Aws>) -> AwsSource {
    let settings = "region = \"eu-central-1\"\naccess_key_id = \"AKIA\"".parse().unwrap();
    AwsSource::new(service, &settings, Arc::clone(http) as _).unwrap()
}

/// What was called, and the words of the refusal.
async fn put(
    service: AwsService,
    reference: &str,
    answers: Answers,
) -> (Vec<String>, Result<(), String>) {
    let http = Arc::new(Aws(answers, Mutex::default()));
    let put = source(service, &http).put(reference, &value("fresh"), &with_key()).await;
    let called = http.1.lock().unwrap().clone();
    (called, put.map_err(|fault| fault.words.as_str().to_owned()))
}

#[tokio::test]
async fn what_aws_did_not_store_is_not_told_as_stored() {
    const GONE: &str = r#"{"__type":"ResourceNotFoundException"}"#;
    const FORBIDDEN: &str = r#"{"__type":"AccessDeniedException"}"#;
    const MADE: Answers = &[("PutSecretValue", 400, GONE), ("CreateSecret", 200, "{}")];
    const DENIED: Answers = &[("PutSecretValue", 400, GONE), ("CreateSecret", 400, FORBIDDEN)];
    let manager = AwsService::SecretsManager;
    let both = ["PutSecretValue", "CreateSecret"].map(str::to_owned).to_vec();
    assert_eq!(put(manager, "api/token", MADE).await, (both.clone(), Ok(())));
    let (called, refused) = put(manager, "api/token", DENIED).await;
    assert_eq!(called, both);
    assert!(refused.unwrap_err().contains("secretsmanager:CreateSecret"));
    let arn = "arn:aws:secretsmanager:eu-central-1:1:secret:api";
    let (called, refused) = put(manager, arn, MADE).await;
    assert_eq!((called.len(), refused.is_err()), (1, true));
    let (_, refused) =
        put(AwsService::Ssm, "/a", &[("PutParameter", 400, r#"{"__type":"ParameterNotFound"}"#)])
            .await;
    assert!(refused.unwrap_err().contains("none of that name"));
}

/// How the source is said to be, how it is after a value was asked for, and the words of that.
async fn asked(reference: &str, status: u16, body: &'static str) -> (State, State, String) {
    let answers = Box::leak(Box::new([("GetSecretValue", status, body)]));
    let http = Arc::new(Aws(answers, Mutex::default()));
    let source = source(AwsService::SecretsManager, &http);
    let with = with_key();
    let fault = source.get(reference, &with).await.err().unwrap();
    (source.state(&with).await, fault.state, fault.words.as_str().to_owned())
}

#[tokio::test]
async fn a_fault_of_one_secret_is_none_of_the_source() {
    use State::{Available, Locked, Unavailable};
    const SCHEDULED: &str = r#"{"__type":"com.amazonaws#InvalidRequestException"}"#;
    for (reference, status, body, state, outcome, words) in [
        ("a", 400, r#"{"__type":"AccessDeniedException"}"#, Available, Locked, "not allowed"),
        ("a", 400, r#"{"__type":"InvalidSignatureException"}"#, Locked, Locked, "clock"),
        ("a", 400, SCHEDULED, Available, Available, "scheduled for deletion"),
        ("a", 400, r#"{"__type":"ThrottlingException"}"#, Unavailable, Unavailable, "too often"),
        ("a", 400, r#"{"__type":"ValidationException"}"#, Available, Available, "name or value"),
        ("a", 403, "", Locked, Locked, "403"),
        ("a", 500, "", Unavailable, Unavailable, "500"),
        ("a", 200, r#"{"SecretBinary":"AAA="}"#, Available, Available, "binary"),
        ("a#x", 200, r#"{"SecretString":"plain"}"#, Available, Available, "no JSON object"),
    ] {
        let told = asked(reference, status, body).await;
        assert_eq!((told.0, told.1), (state, outcome), "{body}: {}", told.2);
        assert!(told.2.contains(words), "{body}: {}", told.2);
    }
}
