//! A vault that locks itself under its holders, and the codes that open it again.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use keyless_core::Code;
use keyless_vault::{Entries, EnvelopeKind, Factor, Keyfile, MachineBinding, Vault};
use sha1::Sha1;

use crate::scene::{
    Engine, PASSPHRASE, Scene, bound, by_passphrase, code, on_both, opened, path, value,
};

on_both! {
    a_code_reopens_what_a_timer_locked
    a_lock_and_a_new_unlock_forget_no_code
    a_lock_by_hand_ends_what_codes_can_do
    a_lock_by_hand_is_the_last_word
    an_app_that_was_replaced_opens_nothing
    envelopes_come_and_go_but_never_the_last
    removed_versions_and_secrets_stay_removed
    what_the_store_does_not_know_is_settled_while_it_is_open
}

/// What an authenticator app does with the URI that it was shown.
struct App(Vec<u8>);

impl App {
    async fn enrol(vault: &Vault) -> Self {
        let mut shown = String::new();
        let enrol = |secret: &keyless_vault::TotpSecret| {
            shown = secret.expose_to_operator().to_string();
            Ok(())
        };
        vault.put_totp(enrol, Entries::untold()).await.unwrap();
        let secret = shown.split("secret=").nth(1).unwrap().split('&').next().unwrap();
        Self(data_encoding::BASE32_NOPAD.decode(secret.as_bytes()).unwrap())
    }

    fn code(&self, at: Timestamp) -> String {
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.0).unwrap();
        mac.update(&(at.as_second() / 30).to_be_bytes());
        let digest = mac.finalize().into_bytes();
        let offset = usize::from(digest[19] & 15);
        let word = u32::from_be_bytes(digest[offset..offset + 4].try_into().unwrap());
        format!("{:06}", (word & 0x7fff_ffff) % 1_000_000)
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

async fn a_code_reopens_what_a_timer_locked(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    vault.add(path("a/b/c"), bound(), Some(value("0123456789")), Entries::untold()).await.unwrap();
    let app = App::enrol(vault).await;
    let clock = Duration::from_secs;
    assert_eq!(
        code(vault.reopen(&app.code(at(0)), at(0), clock(0), || ()).await),
        Code::TotpUnavailable
    );
    assert!(vault.relock(|| true).await.unwrap().unwrap() && !vault.is_open());
    assert_eq!(code(vault.open(&path("a/b/c")).await), Code::Locked);
    assert_eq!(code(vault.list().await), Code::Locked);
    assert_eq!(
        code(vault.put(&path("a/b/c"), value("another one"), Entries::untold()).await),
        Code::Locked
    );
    assert_eq!(code(vault.reopen("000000", at(0), clock(0), || ()).await), Code::TotpWrong);
    vault.reopen(&app.code(at(0)), at(0), clock(1), || ()).await.unwrap();
    assert_eq!(opened(vault, "a/b/c").await, "0123456789");
    // The same code does not do it twice, over another relock either.
    assert!(vault.relock(|| true).await.unwrap().unwrap());
    assert_eq!(
        code(vault.reopen(&app.code(at(0)), at(1), clock(2), || ()).await),
        Code::TotpReplayed
    );
    for second in 3..=6 {
        let wrong = vault.reopen("000000", at(2), clock(second), || ()).await;
        assert_eq!(code(wrong), Code::TotpWrong);
    }
    let right = app.code(at(60));
    let unused = || panic!("it does not open");
    let early = vault.reopen(&right, at(60), clock(7), unused).await;
    assert_eq!(code(early), Code::TotpClosed);
    // Whoever sees it open finds in place what its opener has put there.
    let mut was_open = true;
    let opening = || was_open = vault.is_open();
    vault.reopen(&right, at(60), clock(67), opening).await.unwrap();
    assert!(!was_open && vault.is_open());
    assert_eq!((vault.relock(|| false).await.unwrap(), vault.is_open()), (None, true));
    assert_eq!((vault.relock(|| true).await.unwrap(), vault.is_open()), (Some(true), false));
}

/// What the broker does by itself is no use: a store that nobody uses locks all the same.
#[tokio::test]
async fn what_goes_on_by_itself_keeps_no_store_open() {
    const PAUSE: Duration = Duration::from_millis(50);
    let Scene { vault, .. } = &Scene::new().await;
    vault.add(path("a/b/c"), bound(), Some(value("0123456789")), Entries::untold()).await.unwrap();
    opened(vault, "a/b/c").await;
    tokio::time::sleep(PAUSE).await;
    vault.open_unattended(&path("a/b/c")).await.unwrap();
    assert!(vault.idle() >= PAUSE);
    assert_eq!(code(vault.open_unattended(&path("a/b/d")).await), Code::SecretNotFound);
    vault.lock();
    assert_eq!(code(vault.open_unattended(&path("a/b/c")).await), Code::Locked);
}

/// Neither the last code nor a lockout: `lock` and `unlock` by the passphrase are another broker.
async fn a_lock_and_a_new_unlock_forget_no_code(engine: Engine) {
    let scene = Scene::on(engine).await;
    let app = App::enrol(&scene.vault).await;
    let clock = Duration::from_secs;
    scene.vault.judge_code(&app.code(at(0)), at(0), clock(900)).await.unwrap();
    scene.vault.lock();
    let next = scene.again().await;
    assert_eq!(code(next.judge_code(&app.code(at(0)), at(1), clock(1)).await), Code::TotpReplayed);
    for second in 2..=5 {
        assert_eq!(code(next.judge_code("0", at(2), clock(second)).await), Code::TotpWrong);
    }
    next.lock();
    let (last, beside) = (scene.again().await, scene.again().await);
    let right = app.code(at(60));
    assert_eq!(code(last.judge_code(&right, at(50), clock(1)).await), Code::TotpClosed);
    assert_eq!(code(beside.judge_code(&right, at(50), clock(1)).await), Code::TotpClosed);
    // Of two brokers at once one takes it.
    let both = tokio::join!(
        last.judge_code(&right, at(63), clock(14)),
        beside.judge_code(&right, at(63), clock(14))
    );
    assert!(both.0.is_ok() != both.1.is_ok(), "{both:?}");
}

async fn a_lock_by_hand_ends_what_codes_can_do(engine: Engine) {
    let scene = Scene::on(engine).await;
    let app = App::enrol(&scene.vault).await;
    scene.vault.relock(|| true).await.unwrap().unwrap();
    scene.vault.lock();
    // However often it is tried: it counts as no wrong code, and nobody is locked out.
    for _ in 0..6 {
        let reopened = scene.vault.reopen(&app.code(at(0)), at(0), Duration::ZERO, || ()).await;
        assert_eq!(code(reopened), Code::TotpUnavailable);
    }
    let without = Scene::new().await;
    assert!(!without.vault.relock(|| true).await.unwrap().unwrap(), "no app was enrolled");
}

/// It comes while a timer locks the vault, or a code opens it.
async fn a_lock_by_hand_is_the_last_word(engine: Engine) {
    let scene = Scene::on(engine).await;
    let app = App::enrol(&scene.vault).await;
    let reopens = until_amid(async || {
        let vault = scene.again().await;
        let reopens = lock_amid(&vault, vault.relock(|| true)).await;
        assert!(!vault.is_open() && !vault.can_reopen());
        reopens
    });
    assert_ne!(reopens.await.unwrap_or_default(), Some(true));
    let mut minutes = 0..;
    let reopened = until_amid(async || {
        let vault = scene.again().await;
        assert!(vault.relock(|| true).await.unwrap().unwrap());
        let now = at(60 * minutes.next().unwrap());
        let code = app.code(now);
        let reopened = lock_amid(&vault, vault.reopen(&code, now, Duration::ZERO, || ())).await;
        assert!(!vault.is_open() && !vault.can_reopen());
        reopened
    });
    assert_eq!(code(reopened.await), Code::TotpUnavailable);
}

/// Locks the vault by hand while `doing` is under way; nothing where that was over before it could be locked.
async fn lock_amid<T>(vault: &Vault, doing: impl Future<Output = T>) -> Option<T> {
    let mut doing = pin!(doing);
    let is_over = poll_fn(|context| Poll::Ready(doing.as_mut().poll(context).is_ready())).await;
    vault.lock();
    if is_over { None } else { Some(doing.await) }
}

/// What a store answers at once leaves no time between: the same once more, until there was some.
async fn until_amid<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..50 {
        if let Some(done) = attempt().await {
            return done;
        }
    }
    panic!("it was over before the lock, each time");
}

async fn an_app_that_was_replaced_opens_nothing(engine: Engine) {
    let scene = Scene::on(engine).await;
    let old = App::enrol(&scene.vault).await;
    scene.vault.relock(|| true).await.unwrap().unwrap();
    let other = scene.again().await;
    let new = App::enrol(&other).await;
    let clock = Duration::from_secs;
    // Each finds what the other's secret has sealed, and takes no code of that minute.
    for (second, refusal) in [(0, Code::TotpReplayed), (90, Code::WrongFactor)] {
        let now = at(i64::try_from(second).unwrap());
        let reopened = scene.vault.reopen(&old.code(now), now, clock(second), || ()).await;
        assert_eq!(code(reopened), refusal);
    }
    other.relock(|| true).await.unwrap().unwrap();
    let early = other.reopen(&new.code(at(90)), at(90), clock(90), || ()).await;
    assert_eq!(code(early), Code::TotpReplayed);
    other.reopen(&new.code(at(180)), at(180), clock(180), || ()).await.unwrap();
}

/// As after an update, or when somebody has taken the row away: no right code is refused later than a minute after the
/// unlock.
async fn what_the_store_does_not_know_is_settled_while_it_is_open(engine: Engine) {
    let scene = Scene::on(engine).await;
    let app = App::enrol(&scene.vault).await;
    let clock = Duration::from_secs;
    let other = scene.again().await;
    let told = other.store().code_gate().await.unwrap();
    assert!(other.store().replace_code_gate(told.as_deref(), "{}").await.unwrap());
    other.settle_codes(at(0), clock(0)).await.unwrap();
    other.relock(|| true).await.unwrap().unwrap();
    // Whoever has used this one before the row was lost does not use it again.
    let early = other.reopen(&app.code(at(0)), at(1), clock(1), || ()).await;
    assert_eq!(code(early), Code::TotpReplayed);
    other.reopen(&app.code(at(70)), at(70), clock(70), || ()).await.unwrap();
}

async fn envelopes_come_and_go_but_never_the_last(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    let file = scene.beside("vault.key");
    let keyfile = Keyfile::create(&file).unwrap();
    vault.put_keyfile(&keyfile, MachineBinding::Unbound, Entries::untold()).await.unwrap();
    App::enrol(vault).await;
    let kinds: Vec<_> = vault.envelopes().await.unwrap().into_iter().map(|e| e.kind).collect();
    assert_eq!(kinds, ["keyfile", "passphrase", "recovery", "totp"]);
    assert!(vault.list().await.unwrap().is_empty(), "none of them is a secret");
    vault.remove_envelope(EnvelopeKind::Recovery, Entries::untold()).await.unwrap();
    assert_eq!(
        code(vault.remove_envelope(EnvelopeKind::Recovery, Entries::untold()).await),
        Code::StateUnfit
    );
    vault.remove_envelope(EnvelopeKind::Passphrase, Entries::untold()).await.unwrap();
    assert_eq!(
        code(vault.remove_envelope(EnvelopeKind::Keyfile, Entries::untold()).await),
        Code::LastEnvelope
    );
    let gone = Vault::unlock(scene.store().await, by_passphrase(PASSPHRASE)).await;
    assert_eq!(code(gone), Code::WrongFactor);
    let keyfile = Keyfile::read(&file).unwrap();
    Vault::unlock(scene.store().await, Factor::Keyfile(keyfile)).await.unwrap();
    let other = Keyfile::create(&scene.beside("other.key")).unwrap();
    let wrong = Vault::unlock(scene.store().await, Factor::Keyfile(other)).await;
    assert_eq!(code(wrong), Code::WrongFactor);
}

/// Somebody who can write the file, but has no key, can't pass one envelope off as another.
async fn removed_versions_and_secrets_stay_removed(engine: Engine) {
    let scene = Scene::on(engine).await;
    let vault = &scene.vault;
    let at = path("a/b/c");
    vault.add(at.clone(), bound(), Some(value("first-value")), Entries::untold()).await.unwrap();
    vault.put(&at, value("second-value"), Entries::untold()).await.unwrap();
    vault.restore(&at, Some(1), Entries::untold()).await.unwrap();
    assert_eq!(opened(vault, "a/b/c").await, "first-value");
    assert_eq!(code(vault.restore(&at, Some(1), Entries::untold()).await), Code::StateUnfit);
    assert_eq!(vault.put(&at, value("third-value"), Entries::untold()).await.unwrap(), 3);
    assert_eq!(opened(vault, "a/b/c").await, "third-value");
    vault.remove(&at, Entries::untold()).await.unwrap();
    assert_eq!(vault.removed().await.unwrap().len(), 1);
    assert_eq!(vault.versions(&at).await.unwrap().len(), 3);
    let secret = vault.restore(&at, None, Entries::untold()).await.unwrap();
    assert_eq!(secret.version, Some(3));
    vault.purge(&at, Some(2), Entries::untold()).await.unwrap();
    assert_eq!(code(vault.purge(&at, Some(3), Entries::untold()).await), Code::StateUnfit);
    vault.purge(&at, None, Entries::untold()).await.unwrap();
    assert_eq!(code(vault.versions(&at).await), Code::SecretNotFound);
}
