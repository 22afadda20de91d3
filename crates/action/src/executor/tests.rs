use futures_util::{FutureExt, future::BoxFuture};
use keyless_core::database::{DatabaseFault, DatabaseQuery, DatabaseRows};
use serde_json::json;
use zeroize::Zeroizing;

use super::*;
use crate::{
    ports::{Command, Released, Running},
    sdk::{Answer, Call, Databases},
};

const VALUE: &str = "s3ntinel-of-the-database";

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

#[test]
fn a_fault_is_cleaned_like_any_output() {
    let services = Services {
        providers: Providers::bundled(),
        http: Arc::new(Chatty),
        databases: Arc::new(Chatty),
    };
    let executor = Executor::new(services, Limits::default());
    let work = Work {
        action_id: "act_1".to_owned(),
        action: serde_json::from_value(json!({"type": "exec", "template": "true"})).unwrap(),
        secrets: Vec::new(),
        allowed_hosts: Vec::new(),
        permissions: Vec::new(),
        working_directory: None,
    };
    let fault = || {
        executor.run(&work, Some(Box::new(Chatty)), &Chatty).now_or_never().unwrap().fault.unwrap()
    };
    assert!(fault().message().contains(VALUE));
    let value = Zeroizing::new(VALUE.as_bytes().to_vec());
    executor.remember(vec![Known { name: "db/PASSWORD".to_owned(), value }]);
    assert_eq!(fault(), Error::new(Code::IsolationFailed));
}
