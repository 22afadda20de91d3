//! A store on a server: who is believed, what two homes share, and what is left when the server dies.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::join_all;
use jiff::Timestamp;
use keyless_core::{Code, Error, SecretPath};
use keyless_store::{AuditLog, LogError, Server, Store, StoreError};
use keyless_testkit::{Postgres, TestCa};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use crate::scene::{Engine, PASSWORD, Scene, Word, draft, on_socket, start};

fn over_tls(server: &Postgres, home: &TempDir) -> Server {
    let url = format!("postgres://keyless@localhost:{}/postgres", server.address().port());
    Server::new(&url, home.path()).unwrap().with_password(PASSWORD)
}

#[tokio::test]
async fn a_certificate_of_others_is_refused_and_ours_is_believed() {
    let (ours, others, home) = (TestCa::new(), TestCa::new(), tempfile::tempdir().unwrap());
    let server = start(&ours);
    let believing = |ca: &TestCa| over_tls(&server, &home).with_roots(ca.pem().into());
    let refused = Store::create_or_open(believing(&others)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Untrusted(_)), "{refused:?}");
    assert!(Error::from(refused).to_string().contains("certificate"));
    assert!(matches!(Store::open(believing(&ours)).await, Err(StoreError::Missing)));
    let store = Store::create_or_open(believing(&ours)).await.unwrap();
    store.check().await.unwrap();
    let ways = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE application_name = 'keyless'";
    assert_eq!(server.sql(ways).unwrap(), "t");
    let told = async |place: Server| Error::from(Store::open(place).await.unwrap_err());
    let wrong = told(believing(&ours).with_password("wrong")).await;
    assert_eq!(wrong.code(), Code::StoreRefused);
    assert!(wrong.to_string().contains("password_file"), "{wrong}");
    let url = format!("postgres://keyless@localhost:{}/nowhere", server.address().port());
    let nowhere = Server::new(&url, home.path()).unwrap().with_password(PASSWORD);
    let nowhere = told(nowhere.with_roots(ours.pem().into())).await;
    assert_eq!(nowhere.code(), Code::StoreRefused);
    assert!(nowhere.to_string().contains("no database of that name"), "{nowhere}");
}

#[tokio::test]
async fn another_programs_database_is_left_alone() {
    let (server, home) = (start(&TestCa::new()), tempfile::tempdir().unwrap());
    server.sql("CREATE TABLE grants (what text)").unwrap();
    let place = || on_socket(&server, home.path());
    assert!(matches!(Store::create_or_open(place()).await, Err(StoreError::Foreign)));
    assert!(matches!(Store::open(place()).await, Err(StoreError::Missing)));
    server.sql("DROP TABLE grants").unwrap();
    Store::create_or_open(place()).await.unwrap();
    server.sql("UPDATE keyless_schema SET version = 99").unwrap();
    let newer = Store::open(place()).await.unwrap_err();
    assert!(matches!(newer, StoreError::Newer { found: 99, .. }), "{newer:?}");
}

#[tokio::test]
async fn many_may_make_it_at_once() {
    let (server, home) = (start(&TestCa::new()), tempfile::tempdir().unwrap());
    let makers: Vec<_> = (0..6)
        .map(|_| tokio::spawn(Store::create_or_open(on_socket(&server, home.path()))))
        .collect();
    for maker in makers {
        maker.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn two_homes_write_two_chains_that_verify_together() {
    let scene = Scene::new(Engine::Postgres).await;
    let (server, home) = (scene.server.as_ref().unwrap(), tempfile::tempdir().unwrap());
    let other = Store::open(on_socket(server, home.path())).await.unwrap();
    let word: Arc<Word> = Arc::new(Word("key"));
    // Without the vault's key a chain does not begin.
    let unsealed = AuditLog::start(&other, None).append(draft("s")).await.unwrap_err();
    assert_eq!(unsealed.code(), Code::AuditUnavailable);
    for (store, entries) in [(&scene.store, 30), (&other, 20)] {
        let log = AuditLog::start(store, Some(Arc::clone(&word) as _));
        for _ in 0..entries {
            log.append(draft("s")).await.unwrap();
        }
    }
    for store in [&scene.store, &other] {
        let chains = store.audit_verify(Some(&*word)).await.unwrap();
        let mut ends: Vec<_> = chains.iter().map(|chain| (chain.entries, chain.sealed)).collect();
        ends.sort_unstable();
        assert_eq!(ends, [(20, 20), (30, 30)]);
        assert!(chains.iter().all(|chain| !chain.name.is_empty()));
    }
    assert_eq!(other.audit_tail(1).await.unwrap()[0].sequence, 20);
    // A chain in the place of another.
    let swap = "UPDATE audit_head SET seal = (SELECT seal FROM audit_head ORDER BY chain LIMIT 1)";
    server.sql(swap).unwrap();
    let swapped = scene.store.audit_verify(Some(&*word)).await.unwrap_err();
    assert!(matches!(swapped, LogError::InChain { .. }), "{swapped:?}");
    // A chain that is taken away as a whole is missed by the home that wrote it, and nothing is written any more.
    server.sql("DELETE FROM audit; DELETE FROM audit_head").unwrap();
    let gone = other.audit_verify(None).await.unwrap_err();
    assert!(matches!(gone, LogError::Missing { .. }), "{gone:?}");
    let again = Store::open(on_socket(server, home.path())).await.unwrap();
    let refused = AuditLog::start(&again, Some(word)).append(draft("s")).await.unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
}

/// What a home finds due it says in its log, and removes: that of others would be due for ever.
#[tokio::test]
async fn a_home_finds_only_its_own_closed_parts_due() {
    let scene = Scene::new(Engine::Postgres).await;
    let home = tempfile::tempdir().unwrap();
    let other = Store::open(on_socket(scene.server.as_ref().unwrap(), home.path())).await.unwrap();
    let key = Word("key");
    for store in [&scene.store, &other] {
        AuditLog::start(store, Some(Arc::new(Word("key")))).append(draft("s")).await.unwrap();
    }
    let closed = scene.store.audit_close(1, &key).await.unwrap();
    assert_eq!(other.audit_segments().await.unwrap(), std::slice::from_ref(&closed));
    assert_eq!(other.audit_closed_before(Timestamp::MAX).await.unwrap(), []);
    assert_eq!(scene.store.audit_closed_before(Timestamp::UNIX_EPOCH).await.unwrap(), []);
    assert_eq!(scene.store.audit_closed_before(Timestamp::MAX).await.unwrap(), [closed]);
    scene.store.audit_remove_closed(Timestamp::MAX, &key).await.unwrap();
    assert_eq!(scene.store.audit_closed_before(Timestamp::MAX).await.unwrap(), []);
}

#[tokio::test]
async fn a_server_that_dies_is_told_and_goes_on_when_it_is_back() {
    let mut scene = Scene::new(Engine::Postgres).await;
    let log = AuditLog::start(&scene.store, Some(Arc::new(Word("key"))));
    log.append(draft("s")).await.unwrap();
    scene.server.as_mut().unwrap().kill();
    let error = log.append(draft("s")).await.unwrap_err();
    assert_eq!(error.code(), Code::AuditUnavailable);
    assert!(error.to_string().contains("can't be reached"), "{error}");
    // Whoever does not wait is told the same, once it is known.
    for refused in [log.check(), log.append_soon(draft("s"))] {
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("can't be reached"), "{refused}");
    }
    let read = scene.store.rows().await.unwrap_err();
    assert!(matches!(read, StoreError::Unreachable(_)), "{read:?}");
    let opened = Store::open(scene.place()).await.unwrap_err();
    assert!(matches!(opened, StoreError::Unreachable(_)), "{opened:?}");
    scene.server.as_mut().unwrap().restart().unwrap();
    scene.store.rows().await.unwrap();
    while log.append(draft("s")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    scene.store.audit_verify(Some(&Word("key"))).await.unwrap();
}

/// A way to the server that swallows a connection's words for good from the first that holds `marker`.
async fn swallowing(server: SocketAddr, marker: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let (mut asked, mut answered) = ([0; 8192], [0; 8192]);
                loop {
                    let (count, to, from) = tokio::select! {
                        read = client.read(&mut asked) => (read.unwrap_or(0), &mut server, &asked),
                        read = server.read(&mut answered) => (read.unwrap_or(0), &mut client, &answered),
                    };
                    let words = &from[..count];
                    if words.windows(marker.len()).any(|part| part == marker) {
                        std::future::pending::<()>().await;
                    }
                    if count == 0 || to.write_all(words).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    here
}

/// As many as there may be at once, so that the next one needs the place of one of them.
#[tokio::test]
async fn statements_that_are_never_answered_keep_no_connection() {
    let (server, home) = (start(&TestCa::new()), tempfile::tempdir().unwrap());
    let way = swallowing(server.address(), b"FROM versions").await;
    let url = format!("postgres://keyless@{way}/postgres?sslmode=disable");
    let place = Server::new(&url, home.path()).unwrap().with_password(PASSWORD);
    let store = Store::create_or_open(place).await.unwrap();
    let path = SecretPath::parse("team/github/token").unwrap();
    let asked = (0..5).map(|_| timeout(Duration::from_secs(1), store.version(&path, 1)));
    assert!(join_all(asked).await.iter().all(Result::is_err), "none is answered");
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = store.check().await {
        assert!(Instant::now() < deadline, "{error:?}");
    }
}
