//! What mends a source that can't be asked, or that gave nothing when it was. Pure.

use super::{SourceReport, SourceType};
use crate::source::State;

/// The next step about a source, by its kind, how it is, and how it was when it was last asked for a value; nothing
/// where nothing is amiss. `lacks` is that a secret that it is asked with can't be opened.
pub(super) fn hint(report: &SourceReport, lacks: bool) -> Option<&'static str> {
    let last = report.last_contact.as_ref().and_then(|last| State::parse(&last.outcome));
    match (report.state, last) {
        (State::NeedsCredential, _) if lacks => {
            Some("a secret that it is asked with can't be opened: keyless doctor says which")
        }
        (State::Available, None | Some(State::Available)) => None,
        (State::Available, Some(State::Locked)) => {
            Some("it is open now: keyless source check asks for each value again")
        }
        (State::Available, Some(_)) => {
            Some("it can be asked now: keyless source check says what fails, and with which secret")
        }
        (State::Locked, _) => Some(locked(report.kind)),
        (State::NeedsCredential, _) => Some(lacks_credential(report.kind)),
        (State::NotInstalled, _) => Some(not_installed(report.kind)),
        (State::Unavailable, _) => Some(unavailable(report.kind)),
    }
}

fn locked(kind: SourceType) -> &'static str {
    match kind {
        SourceType::OnePassword => "sign in to op, or renew the service account's token",
        SourceType::AwsSecretsManager | SourceType::AwsSsm => {
            "see that access_key_id is active, that its credential is that key's secret, and that this machine's clock is right"
        }
        SourceType::Bitwarden => {
            "bw unlock --raw prints a session key: make it its credential with keyless secret rotate"
        }
        SourceType::KeePass => {
            "make the database's password its credential with keyless secret rotate, or see to keyfile"
        }
        SourceType::Keyring => "unlock the keyring in the session of whoever runs Keyless",
        SourceType::OpenBao | SourceType::Vault => {
            "unseal the server, or renew its credential: a token ends, and may be revoked"
        }
        SourceType::Pass => "let gpg-agent have the key's passphrase: pass show an entry",
        _ => "unlock it, or sign in to it",
    }
}

fn lacks_credential(kind: SourceType) -> &'static str {
    match kind {
        SourceType::Bitwarden => {
            "log in with bw login, and name what bw unlock --raw prints under [source_credentials]"
        }
        SourceType::KeePass => {
            "name the database's password under [source_credentials], or set keyfile"
        }
        SourceType::Pass => "make a password store: pass init",
        SourceType::Plugin => "give it what its manual asks for, in environment or config",
        _ => "name its credential under [source_credentials]",
    }
}

fn not_installed(kind: SourceType) -> &'static str {
    match kind {
        SourceType::Files => "see that its folder is there",
        SourceType::KeePass => "see that its file and keyfile are there",
        SourceType::Keyring => "start a keyring in this session",
        _ => "install its program, or say in program where it is",
    }
}

fn unavailable(kind: SourceType) -> &'static str {
    match kind {
        SourceType::Env => {
            "see that the file which KEYLESS_SECRETS_FILE names is there, yours and 0600"
        }
        SourceType::AwsSecretsManager
        | SourceType::AwsSsm
        | SourceType::OpenBao
        | SourceType::Vault => "see whether it is up and reachable",
        SourceType::Files | SourceType::KeePass => {
            "see that Keyless may read what it names, and that it is whole"
        }
        SourceType::Keyring => "see that the keyring answers other programs",
        _ => "see that its program works by hand, and that checksum_sha256 is that of the program",
    }
}

#[cfg(test)]
mod tests {
    use keyless_store::SourceContact;

    use super::*;

    fn next(kind: SourceType, state: State, last: Option<&str>) -> Option<&'static str> {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let last_contact = last.map(|outcome| SourceContact { at, outcome: outcome.to_owned() });
        let report = SourceReport {
            name: "a".to_owned(),
            kind,
            declared: Vec::new(),
            effective: Vec::new(),
            state,
            hint: None,
            last_contact,
        };
        hint(&report, false)
    }

    #[test]
    fn a_source_that_is_well_is_judged_by_what_it_gave_last() {
        let available = |kind, last| next(kind, State::Available, last);
        assert_eq!(available(SourceType::Vault, None), None);
        assert_eq!(available(SourceType::Vault, Some("available")), None);
        for (kind, last, expected) in [
            (SourceType::Vault, "locked", "open now"),
            (SourceType::Pass, "locked", "open now"),
            (SourceType::Vault, "unavailable", "source check"),
        ] {
            let told = available(kind, Some(last)).unwrap();
            assert!(told.contains(expected), "{kind} {last}: {told}");
        }
    }

    #[test]
    fn each_kind_is_mended_in_its_own_way() {
        for (kind, state, expected) in [
            (SourceType::Bitwarden, State::NeedsCredential, "bw login"),
            (SourceType::Pass, State::NeedsCredential, "pass init"),
            (SourceType::Vault, State::NeedsCredential, "[source_credentials]"),
            (SourceType::Vault, State::Locked, "unseal"),
            (SourceType::Files, State::NotInstalled, "folder"),
            (SourceType::Plugin, State::Unavailable, "checksum_sha256"),
        ] {
            // What it gave before it was so is past.
            let told = next(kind, state, Some("available")).unwrap();
            assert!(told.contains(expected), "{kind} {state:?}: {told}");
        }
    }
}
