//! What a person's word is bound to, and what they are shown.

use keyless_core::{ActionType, EgressRule, Handle, SecretPath, approval::Decision};
use keyless_vault::{Entries, Metadata};
use serde_json::{Value, json};

use super::*;
use crate::nl::scene::{Served, aid};

fn action(action: Value) -> Action {
    Action::from_json(action).unwrap()
}

fn meant(action: &Action, paths: &[&str]) -> Vec<Meant> {
    let meant =
        |(handle, path): (Handle, &&str)| Meant { handle, path: SecretPath::parse(path).unwrap() };
    action.handles().unwrap().into_iter().zip(paths).map(meant).collect()
}

fn caller() -> Caller {
    Caller { aid: aid("bot"), source_ip: None, delegation: Vec::new(), acting: None }
}

fn wanted(action: &Action, paths: &[&str]) -> Result<WantedAction, NlFault> {
    let (caller, meant) = (caller(), meant(action, paths));
    Approval { caller: &caller, action, meant: &meant, kept: &[], hosts: &[] }.wanted()
}

fn shown(action: &Action, paths: &[&str]) -> String {
    wanted(action, paths).unwrap().text
}

fn digest(action: &Action, paths: &[&str]) -> String {
    wanted(action, paths).unwrap().sha256
}

#[test]
fn a_word_is_bound_to_the_whole_action_and_every_secret() {
    let exec = action(json!({ "type": "exec", "template": "x {{nl:A}} {{nl:B}}" }));
    let first = digest(&exec, &["t/p/a", "t/p/b"]);
    assert_eq!(first.len(), 64);
    assert_ne!(first, digest(&exec, &["t/p/a", "t/q/b"]));
    let other = action(json!({ "type": "exec", "template": "x {{nl:A}} {{nl:B}} " }));
    assert_ne!(first, digest(&other, &["t/p/a", "t/p/b"]));
    let again = Action { purpose: Some("deploy".to_owned()), ..exec };
    assert_eq!(first, digest(&again, &["t/p/a", "t/p/b"]));
}

#[tokio::test]
async fn a_yes_reaches_no_host_that_was_not_shown_and_a_no_counts_for_all() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = action(json!({ "type": "exec", "template": "true {{nl:api/token}}" }));
    let meant = meant(&action, &["t/api/token"]);
    let hosts: Vec<Destination> = ["a.test", "b.test"].map(|name| name.parse().unwrap()).to_vec();
    let code = async |hosts: &[Destination]| {
        let approval =
            Approval { caller: &caller, action: &action, meant: &meant, kept: &[], hosts };
        served.nl.approve(approval).await.err().map(|fault| fault.code())
    };
    let settle = async |number: usize, decision| {
        let all = served.nl.requests.all().await.unwrap();
        served.nl.requests.settle(&all[number].id, decision).await.unwrap();
    };
    let asked = Some(Code::ApprovalRequired);
    assert_eq!(code(&[]).await, asked);
    settle(0, Decision::AllowOnce).await;
    // The grant is another by now.
    assert_eq!((code(&hosts[..1]).await, code(&hosts[..1]).await), (asked, asked));
    assert_eq!(served.nl.requests.all().await.unwrap().len(), 2);
    settle(1, Decision::AllowOnce).await;
    assert_eq!((code(&hosts).await, code(&hosts[..1]).await), (asked, None));
    assert_eq!((code(&[]).await, code(&[]).await), (None, asked), "each as it was shown");
    settle(2, Decision::Deny).await;
    assert_eq!(code(&[]).await, Some(Code::ApprovalDenied));
}

/// They saw where its value may go; where that is another place by then, they saw something else.
#[tokio::test]
async fn a_yes_is_for_the_destinations_that_were_shown() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let action = action(json!({ "type": "exec", "template": "true {{nl:api/token}}" }));
    let meant = meant(&action, &["t/api/token"]);
    let code = async || {
        let approval =
            Approval { caller: &caller, action: &action, meant: &meant, kept: &[], hosts: &[] };
        served.nl.approve(approval).await.err().map(|fault| fault.code())
    };
    let goes_to = async |host: &str| {
        let (vault, path) = (&served.nl.vault, &meant[0].path);
        let before = vault.show(path).await.unwrap().metadata;
        let to = vec![host.parse().unwrap()];
        let after = Metadata { egress: Some(EgressRule::to(to)), ..before.clone() };
        vault.set_metadata(path, &before, after, Entries::untold()).await.unwrap();
    };
    let asked = Some(Code::ApprovalRequired);
    goes_to("a.test").await;
    assert_eq!(code().await, asked);
    let first = served.nl.requests.all().await.unwrap().remove(0);
    served.nl.requests.settle(&first.id, Decision::AllowOnce).await.unwrap();
    goes_to("b.test").await;
    assert_eq!(code().await, asked);
    goes_to("a.test").await;
    assert_eq!((code().await, code().await), (None, asked));
}

/// They read one purpose, and it is done for that one alone; a no is a no whatever it is for.
#[tokio::test]
async fn a_yes_is_for_the_purpose_that_was_read() {
    let served = Served::new().await;
    let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
    let shown = "p".repeat(80);
    let code = async |purpose: Option<String>| {
        let exec = json!({ "type": "exec", "template": "true {{nl:api/token}}" });
        let action = Action { purpose, ..action(exec) };
        let meant = meant(&action, &["t/api/token"]);
        let approval =
            Approval { caller: &caller, action: &action, meant: &meant, kept: &[], hosts: &[] };
        served.nl.approve(approval).await.err().map(|fault| fault.code())
    };
    let settle = async |number: usize, decision| {
        let all = served.nl.requests.all().await.unwrap();
        served.nl.requests.settle(&all[number].id, decision).await.unwrap();
    };
    let asked = Some(Code::ApprovalRequired);
    let [read, alike] = ["x", "y"].map(|end| Some(format!("{shown}{end}")));
    assert_eq!(code(read.clone()).await, asked);
    settle(0, Decision::AllowOnce).await;
    for other in [None, Some("another".to_owned()), alike] {
        assert_eq!(code(other).await, asked);
    }
    assert_eq!((code(read.clone()).await, code(read).await), (None, asked));
    settle(1, Decision::Deny).await;
    assert_eq!(code(Some("a third one".to_owned())).await, Some(Code::ApprovalDenied));
}

#[test]
fn a_person_is_shown_all_of_it() {
    let long = format!("curl {} {{{{nl:A}}}} {{{{nl:B}}}} | tail", "x".repeat(1000));
    let exec = action(json!({ "type": "exec", "template": long, "purpose": "p".repeat(90) }));
    let told = wanted(&exec, &["t/p/a", "t/p/b"]).unwrap();
    assert_eq!(told.secrets.iter().map(SecretPath::as_str).collect::<Vec<_>>(), ["t/p/a", "t/p/b"]);
    assert!(told.text.starts_with("curl ") && told.text.ends_with("| tail"), "{told:?}");
    assert!(told.purpose.unwrap().ends_with("p… (10 more characters)"));

    let lines = action(json!({ "type": "exec", "template": "ls # {{nl:A}}\nrm -r x" }));
    assert_eq!(shown(&lines, &["t/p/a"]), "ls # {{nl:A}}\nrm -r x");

    let files = action(json!({
        "type": "inject_tempfile", "command": "ssh -i {{nl:KEY}} host", "file_refs": { "KEY": "{{nl:ssh/ID}}" },
    }));
    let told = shown(&files, &["t/ssh/id"]);
    assert!(told.contains("with files: KEY = {{nl:ssh/ID}}"), "{told}");

    let call = action(json!({
        "type": "sdk_proxy", "provider": "http", "service": "api.a.test", "operation": "DELETE",
        "parameters": { "path": "/repos/all" }, "credentials_ref": "{{nl:A}}",
    }));
    let told = shown(&call, &["t/p/a"]);
    assert_eq!(told, "http api.a.test DELETE {\"path\":\"/repos/all\"}; as {{nl:A}}");

    let file = action(json!({
        "type": "template", "template_content": "key={{nl:A}}", "output_path": "/w/.env",
    }));
    assert_eq!(shown(&file, &["t/p/a"]), "/w/.env; with the text: key={{nl:A}}");

    let endless = format!("true {{{{nl:A}}}} {}", "\u{200b}".repeat(1000));
    let endless = action(json!({ "type": "exec", "template": endless }));
    assert_eq!(wanted(&endless, &["t/p/a"]).unwrap_err().code(), Code::ApprovalRequired);
}
