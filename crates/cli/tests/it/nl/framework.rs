//! A framework in Rust, over `keyless-client`: what it is answered, and what it is told when it is not.

use std::{
    fs,
    time::{Duration, Instant},
};

use keyless_client::{Client, Error, Identity};
use keyless_core::{
    Code,
    action::{Action, ActionRequest, ActionType, Deed, DelegationScope, Status},
    nl_message::MAX_MESSAGE_BYTES,
};
use rustix::process::Signal;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

use super::{sessions::RUN, *};
use crate::mcp::unlock;

const PASSWORD: &str = "{{nl:db/PASSWORD}}";

impl Served<'_> {
    fn identity(&self, who: &str) -> Identity {
        let text = |key: &str| self.agents[who][key].as_str().unwrap().to_owned();
        Identity::registered(
            text("agent_uri"),
            text("instance_id"),
            Zeroizing::new(text("credential")),
        )
    }

    async fn connect(&self, who: &str) -> Result<Client, Error> {
        let socket = self.world.home.keyless_home().join("run/nl.sock");
        Client::connect(&socket, &self.identity(who)).await
    }
}

fn exec(template: &str) -> Action {
    Action::new(Deed::Exec { template: template.to_owned() })
}

/// What a command printed.
async fn printed(client: &Client, request: &ActionRequest) -> String {
    let response = client.execute(request).await.unwrap();
    response
        .result
        .and_then(|result| result.stdout)
        .unwrap_or_else(|| panic!("{:?}", response.error))
}

#[test]
fn a_denial_is_an_answer_and_a_request_is_done_once() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    Runtime::new().unwrap().block_on(async {
        let client = served.connect("agent").await.unwrap();
        assert_eq!(client.agent().agent_uri, AGENT);
        let shown = format!("sh -c 'printf %s \"$1\" | wc -c; date +%N' x {PASSWORD}");
        let request = client.request(exec(&shown));
        let first = printed(&client, &request).await;
        let length = world.canary.value().len();
        assert!(first.starts_with(&format!("{length}\n")), "{first}");
        // On another connection too.
        let again = served.connect("agent").await.unwrap();
        assert_eq!(printed(&again, &request).await, first, "it was not done once more");
        assert_ne!(printed(&again, &again.request(exec(&shown))).await, first);
        let other = ActionRequest { action: exec("true"), ..request };
        let conflict = client.execute(&other).await;
        let denied = client.execute(&client.request(exec("true {{nl:api/TOKEN}}"))).await.unwrap();
        assert_eq!(denied.status, Status::Denied);
        let fault = denied.error.unwrap();
        assert_eq!(
            (fault.code.as_str(), fault.nl_code.as_deref()),
            ("SCOPE_VIOLATION", Some("NL-E200"))
        );
        assert_eq!(fault.cause, Some(Code::GrantMissing));
        assert!(fault.suggestion.unwrap().contains("Scope Grant"));
        let code = match conflict {
            Ok(response) => response.error.and_then(|fault| fault.cause),
            Err(error) => error.code(),
        };
        assert_eq!(code, Some(Code::MessageReplayed));
        let failed = client.execute(&client.request(exec("exit 3"))).await.unwrap();
        assert_eq!(failed.result.and_then(|result| result.exit_code), Some(3));
    });
}

#[test]
fn it_asks_what_it_may_use_and_hands_a_part_of_it_on() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    Runtime::new().unwrap().block_on(async {
        let client = served.connect("agent").await.unwrap();
        let secrets = client.list_secrets(None).await.unwrap();
        let [secret] = secrets.as_slice() else { panic!("{secrets:?}") };
        assert_eq!(
            (secret.name.as_str(), secret.reference.as_str()),
            (BOXED, "{{nl:db/password}}")
        );
        assert!(secret.action_types.contains(&ActionType::Exec) && !secret.bound_to_hosts);
        assert_eq!(client.list_secrets(Some("other/")).await.unwrap(), []);
        let access = client.check_access("db/PASSWORD", ActionType::Exec).await.unwrap();
        assert!(access.allowed, "{access:?}");
        let access = client.check_access("api/TOKEN", ActionType::Template).await.unwrap();
        assert_eq!((access.allowed, access.nl_code.as_deref()), (false, Some("NL-E200")));
        let document = client.discover().await.unwrap();
        assert_eq!(document["provider"]["name"], "Keyless");

        let helper = served.connect("helper").await.unwrap();
        let uses = format!("true {PASSWORD}");
        let alone = helper.execute(&helper.request(exec(&uses))).await.unwrap();
        assert_eq!(alone.status, Status::Denied);
        let scope = DelegationScope {
            secrets: vec!["db/PASSWORD".to_owned()],
            max_uses: Some(2),
            ttl_seconds: Some(60),
        };
        let handed = client.delegate(HELPER, &[ActionType::Exec], &scope).await.unwrap();
        let under = async || {
            let request = helper.request(exec(&uses));
            helper.execute_under(&handed.token_id, &request).await.unwrap()
        };
        // Two in one second have a proof of their own each.
        let (one, other) = tokio::join!(under(), under());
        assert_eq!(
            (one.status, other.status),
            (Status::Success, Status::Success),
            "{one:?} {other:?}"
        );
        assert_eq!(client.revoke_delegation(&handed.token_id).await.unwrap(), 0);
        let over = helper.execute_under(&handed.token_id, &helper.request(exec(&uses))).await;
        let over = over.map(|response| response.error.and_then(|fault| fault.cause));
        assert!(matches!(over, Err(_) | Ok(Some(_))), "{over:?}");
        let unknown = client.revoke_delegation("11111111-1111-4111-8111-111111111111").await;
        assert!(matches!(unknown, Err(Error::Refused(_))), "{unknown:?}");
    });
}

#[test]
fn many_wait_over_one_connection_and_none_for_another() {
    let world = with_secrets();
    let served = Served::start(&world);
    Runtime::new().unwrap().block_on(async {
        let client = served.connect("agent").await.unwrap();
        let slow = client.clone();
        let slow =
            tokio::spawn(
                async move { printed(&slow, &slow.request(exec("sleep 3; echo slow"))).await },
            );
        let begun = Instant::now();
        let quick = (0..5).map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                printed(&client, &client.request(exec(&format!("echo {number}")))).await
            })
        });
        for (number, quick) in quick.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(quick.await.unwrap(), format!("{number}\n"));
        }
        assert!(!slow.is_finished(), "they waited for it: {:?}", begun.elapsed());
        let hasty = client.clone().within(Duration::from_millis(200));
        let request = hasty.request(exec("sleep 1; echo late"));
        assert!(matches!(hasty.execute(&request).await, Err(Error::Late(_))));
        assert_eq!(printed(&client, &request).await, "late\n", "it was done all the same, once");
        let long = client.request(exec(&"#".repeat(MAX_MESSAGE_BYTES)));
        assert_eq!(client.execute(&long).await.unwrap_err().code(), Some(Code::MessageTooLarge));
        assert_eq!(slow.await.unwrap(), "slow\n");
    });
}

#[test]
fn who_is_not_known_is_not_let_in() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    served.agents["agent"]["credential"] = json!("nlk_of_nobody");
    Runtime::new().unwrap().block_on(async {
        let refused = served.connect("agent").await.map(drop).unwrap_err();
        let Error::Refused(fault) = &refused else { panic!("{refused:?}") };
        assert_eq!(
            (fault.cause, fault.nl_code.as_deref()),
            (Some(Code::AgentUnknown), Some("NL-E100"))
        );
        assert!(refused.next_step().is_some() && !format!("{refused:?}").contains("nlk_"));
    });
}

#[test]
fn a_broker_that_hangs_or_is_gone_is_told_as_that() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    Runtime::new().unwrap().block_on(async {
        let client = served.connect("agent").await.unwrap();
        served.broker.signal(Signal::STOP);
        let hung = client.discover().await.unwrap_err();
        assert_eq!(hung.code(), Some(Code::BrokerHangs));
        assert!(hung.to_string().contains(&format!("process {}", served.broker.pid())), "{hung}");
        let hung = served.connect("agent").await.map(drop).unwrap_err();
        assert_eq!(hung.code(), Some(Code::BrokerHangs));
        served.broker.signal(Signal::CONT);
        assert_eq!(client.discover().await.unwrap()["provider"]["name"], "Keyless");
        let waiting = client.clone();
        let waiting =
            tokio::spawn(async move { waiting.execute(&waiting.request(exec("sleep 60"))).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        served.broker.signal(Signal::KILL);
        served.broker.wait();
        assert_eq!(waiting.await.unwrap().unwrap_err().code(), Some(Code::BrokerNotRunning));
        assert!(!client.is_open());
        let request = client.request(exec("true"));
        assert_eq!(
            client.execute(&request).await.unwrap_err().code(),
            Some(Code::BrokerNotRunning)
        );
        let gone = served.connect("agent").await.map(drop).unwrap_err();
        assert_eq!(gone.code(), Some(Code::BrokerNotRunning));
        assert!(gone.next_step().unwrap().contains("keyless unlock"));
    });
    // It was killed, and has left them.
    fs::remove_dir_all(world.home.keyless_home().join("run")).unwrap();
}

/// `examples/agent_framework.rs` once more: `keyless run` says where its session's socket is, and that says who asks.
#[test]
fn in_a_session_it_needs_no_credential() {
    let world = with_secrets();
    granted(&world, RUN, &["db/*"]);
    unlock(&world);
    let example = std::path::Path::new(KEYLESS).with_file_name("examples/agent_framework");
    let run = |template: &str| {
        let arguments = ["run", "--", example.to_str().unwrap(), template];
        world.keyless(&arguments).without_passphrase().run()
    };
    let text = run(&format!("sh -c 'printf %s \"$1\" | wc -c' x {PASSWORD}")).ok();
    assert_eq!(text, format!("{}\n", world.canary.value().len()));
    let refused = run("true {{nl:api/TOKEN}}");
    assert!(refused.errors().contains("NL-E200"), "{refused:?}");
}
