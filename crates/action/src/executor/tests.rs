use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::{FutureExt, future::BoxFuture};
use keyless_core::{
    SecretPath,
    database::{DatabaseFault, DatabaseQuery, DatabaseRows},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::*;
use crate::{
    ports::{Command, Edition, Entry, Process, Released, Running},
    sdk::{Answer, Call, Databases},
};

const VALUE: &str = "s3ntinel-of-the-database";
const EDITION: Edition = Edition { version: Some(1), set_at: Timestamp::UNIX_EPOCH };

/// Nothing can be done, and why is told with a value in it.
struct Chatty;

impl Berth for Chatty {
    fn start(self: Box<Self>, _: Command) -> BoxFuture<'static, Result<Running, Error>> {
        let words = SafeText::words("no jail: ").as_they_wrote(VALUE);
        Box::pin(async move { Err(Error::with(Code::IsolationFailed, words)) })
    }
}

impl Http for Chatty {
    fn send(&self, _: Call) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(async { Err(Code::Internal.into()) })
    }
}

impl Databases for Chatty {
    fn query(&self, _: DatabaseQuery) -> BoxFuture<'_, Result<DatabaseRows, DatabaseFault>> {
        Box::pin(async { Err(DatabaseFault::Stopped(Code::Internal.into())) })
    }
}

impl Release for Chatty {
    fn placeholder(&self, _: &SecretPath) -> Result<String, Error> {
        Err(Code::Internal.into())
    }

    fn release<'a>(&'a self, _: &'a Entrusted) -> BoxFuture<'a, Result<Released, Error>> {
        Box::pin(async { Err(Code::Internal.into()) })
    }
}

impl Standing for Chatty {
    fn is_permitted<'a>(&'a self, _: &'a PermissionRef) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    fn edition<'a>(&'a self, _: &'a SecretPath) -> BoxFuture<'a, Option<Edition>> {
        Box::pin(async { None })
    }
}

/// What an earlier action rendered is permitted and as it was, until something is given for a later one.
#[derive(Default)]
struct Passing {
    permission_ends: bool,
    secret_changes: bool,
    is_given: AtomicBool,
}

impl Passing {
    fn still(&self, what_ends: bool) -> bool {
        !(what_ends && self.is_given.load(Ordering::Relaxed))
    }
}

impl Release for Passing {
    fn placeholder(&self, _: &SecretPath) -> Result<String, Error> {
        self.is_given.store(true, Ordering::Relaxed);
        Ok("a-placeholder".to_owned())
    }

    fn release<'a>(&'a self, _: &'a Entrusted) -> BoxFuture<'a, Result<Released, Error>> {
        Box::pin(async { Err(Code::Internal.into()) })
    }
}

impl Standing for Passing {
    fn is_permitted<'a>(&'a self, _: &'a PermissionRef) -> BoxFuture<'a, bool> {
        Box::pin(async { self.still(self.permission_ends) })
    }

    fn edition<'a>(&'a self, _: &'a SecretPath) -> BoxFuture<'a, Option<Edition>> {
        Box::pin(async { self.still(self.secret_changes).then_some(EDITION) })
    }
}

/// Tells the number of files that would enter.
struct Counting(Arc<AtomicUsize>);

impl Berth for Counting {
    fn start(self: Box<Self>, command: Command) -> BoxFuture<'static, Result<Running, Error>> {
        self.0.store(command.files.len(), Ordering::Relaxed);
        Box::pin(async { Err(Code::IsolationFailed.into()) })
    }
}

fn executor() -> Executor {
    let services = Services {
        providers: Providers::bundled(),
        http: Arc::new(Chatty),
        databases: Arc::new(Chatty),
    };
    Executor::new(services, Limits::default())
}

fn work(action: serde_json::Value) -> Work {
    Work {
        action_id: "act_1".to_owned(),
        checked: Checked::unchecked(serde_json::from_value(action).unwrap()),
        secrets: Vec::new(),
        allowed_hosts: Vec::new(),
        kept: Vec::new(),
        permissions: Vec::new(),
        working_directory: None,
    }
}

#[test]
fn a_rendered_file_enters_only_as_things_are_once_everything_is_given() {
    let handle = Handle::parse_alone("", "{{nl:api/KEY}}").unwrap();
    let secret = Entrusted {
        handle,
        path: "team/api/key".parse().unwrap(),
        version: None,
        entry: Entry::Placeholder,
        rule: None,
        is_exposed: false,
        edition: EDITION,
    };
    let permission = json!({"grant": "grant-1", "index": 0});
    let render = json!({
        "type": "template", "template_content": "{{nl:api/KEY}}", "output_path": "app.conf",
    });
    let render = Work {
        secrets: vec![secret.clone()],
        permissions: vec![serde_json::from_value(permission).unwrap()],
        ..work(render)
    };
    let read = json!({"type": "exec", "template": "true {{nl:api/KEY}} < /tmp/nl-secure/app.conf"});
    let kept = vec![render.action_id.clone()];
    let read = Work { secrets: vec![secret], kept, ..work(read) };
    let files = |passing: Passing| {
        let (executor, count) = (executor(), Arc::new(AtomicUsize::new(usize::MAX)));
        let made = executor.run(&render, None, &passing).now_or_never().unwrap();
        assert_eq!(made.status, Status::Success);
        passing.is_given.store(false, Ordering::Relaxed);
        let berth = Box::new(Counting(Arc::clone(&count)));
        executor.run(&read, Some(berth), &passing).now_or_never().unwrap();
        count.load(Ordering::Relaxed)
    };
    assert_eq!(files(Passing::default()), 1);
    assert_eq!(files(Passing { permission_ends: true, ..Passing::default() }), 0);
    assert_eq!(files(Passing { secret_changes: true, ..Passing::default() }), 0);
}

#[test]
fn a_fault_is_cleaned_like_any_output() {
    let executor = executor();
    let work = work(json!({"type": "exec", "template": "true"}));
    let fault = || {
        executor.run(&work, Some(Box::new(Chatty)), &Chatty).now_or_never().unwrap().fault.unwrap()
    };
    assert!(fault().message().contains(VALUE));
    let value = Zeroizing::new(VALUE.as_bytes().to_vec());
    executor.remember(vec![Known { name: "db/PASSWORD".to_owned(), value }]);
    assert_eq!(fault(), Error::new(Code::IsolationFailed));
}

/// Says what another host has sent it: a value that went out in place of its placeholder.
struct Returning;

impl Berth for Returning {
    fn start(self: Box<Self>, _: Command) -> BoxFuture<'static, Result<Running, Error>> {
        let said = format!("it is {VALUE}, or {}", VALUE.chars().rev().collect::<String>());
        Box::pin(async move {
            Ok(Running {
                input: Box::new(tokio::io::sink()),
                output: Box::new(std::io::Cursor::new(said.into_bytes())),
                errors: Box::new(tokio::io::empty()),
                process: Box::new(Self),
            })
        })
    }
}

impl Process for Returning {
    fn terminate(&self) {}

    fn kill(&self) {}

    fn wait(&self) -> BoxFuture<'_, Exit> {
        async { Exit::Code(0) }.boxed()
    }

    fn went_out(&self) -> Vec<WentOut> {
        let path = SecretPath::parse("team/api/token").unwrap();
        vec![WentOut { path, value: Zeroizing::new(VALUE.as_bytes().to_vec()) }]
    }
}

#[tokio::test]
async fn a_value_that_went_out_in_place_of_a_placeholder_does_not_come_back() {
    let outcome = executor().run(&Work::idle(), Some(Box::new(Returning)), &Chatty).await;
    let said = outcome.result.unwrap().stdout.unwrap();
    assert!(said.starts_with("it is [REDACTED:team/api/token"), "{said}");
    assert!(!said.contains(&VALUE.chars().rev().collect::<String>()), "{said}");
}
