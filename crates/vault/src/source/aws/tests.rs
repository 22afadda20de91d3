//! What asking and putting come to, by what AWS answers to each call.

use std::sync::Mutex;

use keyless_core::Binding;

use super::*;
use crate::source::http::HttpFault;

type Answers = &'static [(&'static str, u16, &'static str)];

/// Answers `target`s by the table, the last one of a target again and again, and notes who asked, and what for.
struct Aws(Answers, Mutex<Vec<(String, String)>>);

impl SourceHttp for Aws {
    fn send(&self, request: HttpRequest) -> Answer<'_, Result<HttpAnswer, HttpFault>> {
        let target = request.headers.iter().find(|(name, _)| name == "x-amz-target").unwrap();
        let target = target.1.rsplit('.').next().unwrap().to_owned();
        let mut asked = self.1.lock().unwrap();
        let before = asked.iter().filter(|(known, _)| *known == target).count();
        let answers: Vec<_> = self.0.iter().filter(|(known, ..)| *known == target).collect();
        let (_, status, body) = answers[before.min(answers.len() - 1)];
        asked.push((target, String::from_utf8(request.body.to_vec()).unwrap()));
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
    let called = http.1.lock().unwrap().iter().map(|(target, _)| target.clone()).collect();
    (called, put.map_err(|fault| fault.words.as_str().to_owned()))
}

#[tokio::test]
async fn what_aws_did_not_store_is_not_told_as_stored() {
    const GONE: &str = r#"{"__type":"ResourceNotFoundException"}"#;
    const FORBIDDEN: &str = r#"{"__type":"AccessDeniedException"}"#;
    const NONE: (&str, u16, &str) = ("GetSecretValue", 400, GONE);
    const MADE: Answers = &[NONE, ("PutSecretValue", 400, GONE), ("CreateSecret", 200, "{}")];
    const DENIED: Answers =
        &[NONE, ("PutSecretValue", 400, GONE), ("CreateSecret", 400, FORBIDDEN)];
    const NO_PARAMETER: Answers = &[
        ("DescribeParameters", 200, r#"{"Parameters":[]}"#),
        ("PutParameter", 400, r#"{"__type":"ParameterNotFound"}"#),
    ];
    let manager = AwsService::SecretsManager;
    let all = ["GetSecretValue", "PutSecretValue", "CreateSecret"].map(str::to_owned).to_vec();
    assert_eq!(put(manager, "api/token", MADE).await, (all.clone(), Ok(())));
    let (called, refused) = put(manager, "api/token", DENIED).await;
    assert_eq!(called, all);
    assert!(refused.unwrap_err().contains("secretsmanager:CreateSecret"));
    let arn = "arn:aws:secretsmanager:eu-central-1:1:secret:api";
    let (called, refused) = put(manager, arn, MADE).await;
    assert_eq!((called.len(), refused.is_err()), (2, true));
    let (_, refused) = put(AwsService::Ssm, "/a", NO_PARAMETER).await;
    assert!(refused.unwrap_err().contains("none of that name"));
}

/// What is put for a parameter that AWS describes so.
async fn parameter(described: &'static str) -> serde_json::Value {
    let answers =
        Box::leak(Box::new([("DescribeParameters", 200, described), ("PutParameter", 200, "{}")]));
    let http = Arc::new(Aws(answers, Mutex::default()));
    source(AwsService::Ssm, &http).put("/a", &value("fresh"), &with_key()).await.unwrap();
    let (_, sent) = http.1.lock().unwrap().pop().unwrap();
    serde_json::from_str(&sent).unwrap()
}

#[tokio::test]
async fn a_parameter_stays_of_its_type_and_under_its_key() {
    const PAGES: Answers = &[
        ("DescribeParameters", 200, r#"{"Parameters":[],"NextToken":"t"}"#),
        ("DescribeParameters", 200, r#"{"Parameters":[{"Name":"/a","Type":"String"}]}"#),
        ("PutParameter", 200, "{}"),
    ];
    const DENIED: Answers = &[("DescribeParameters", 400, r#"{"__type":"AccessDeniedException"}"#)];
    for (described, kind, key) in [
        (r#"{"Parameters":[]}"#, "SecureString", json!(null)),
        (r#"{"Parameters":[{"Name":"/a","Type":"String"}]}"#, "String", json!(null)),
        (
            r#"{"Parameters":[{"Name":"/a","Type":"SecureString","KeyId":"alias/mine"}]}"#,
            "SecureString",
            json!("alias/mine"),
        ),
    ] {
        let sent = parameter(described).await;
        assert_eq!((&sent["Type"], &sent["KeyId"]), (&json!(kind), &key), "{described}");
        assert_eq!(sent["Value"], json!("fresh"));
    }
    // It may be on a later page than the first, which may be empty.
    let (called, put_there) = put(AwsService::Ssm, "/a", PAGES).await;
    assert_eq!((called.len(), put_there), (3, Ok(())));
    let (called, refused) = put(AwsService::Ssm, "/a", DENIED).await;
    assert_eq!(called.len(), 1);
    assert!(refused.unwrap_err().contains("ssm:DescribeParameters"));
}

#[tokio::test]
async fn text_takes_no_binary_secrets_place() {
    const BINARY: Answers =
        &[("GetSecretValue", 200, r#"{"SecretBinary":"AAA="}"#), ("PutSecretValue", 200, "{}")];
    const BLIND: Answers = &[
        ("GetSecretValue", 400, r#"{"__type":"AccessDeniedException"}"#),
        ("PutSecretValue", 200, "{}"),
    ];
    let (called, refused) = put(AwsService::SecretsManager, "a", BINARY).await;
    assert_eq!(called.len(), 1);
    assert!(refused.unwrap_err().contains("binary"));
    // A key that may write alone goes on writing.
    let (called, put) = put(AwsService::SecretsManager, "a", BLIND).await;
    assert_eq!((called.len(), put), (2, Ok(())));
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
        ("a", 400, r#"{"__type":"AccessDeniedException"}"#, Available, Available, "GetSecretValue"),
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

/// Writers of JSON may escape any letter of a key.
#[tokio::test]
async fn a_key_is_found_that_is_escaped() {
    const ESCAPED: Answers = &[(
        "GetSecretValue",
        200,
        r#"{"SecretString":"{\"a\\u0026b\":\"value-of-it\",\"c\":\"other\"}"}"#,
    )];
    let http = Arc::new(Aws(ESCAPED, Mutex::default()));
    let source = source(AwsService::SecretsManager, &http);
    for (reference, value) in [("api#a&b", "value-of-it"), ("api#c", "other")] {
        let got = source.get(reference, &with_key()).await.unwrap().unwrap();
        assert_eq!(got.bytes.as_slice(), value.as_bytes(), "{reference}");
    }
}
