//! Notices that files have changed.
//!
//! Files are looked at twice a second, through symbolic links: Kubernetes turns the link `..data`
//! above a mounted file, CSI and network mounts send no inotify events at all, and looking at some
//! hundred files costs less than the request that is served meanwhile. A change counts once the
//! files have kept still for one look, so that half a file is not taken for a whole one.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Agent, Draft, Outcome, Target},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
};

use crate::broker::plain_entry;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(400);

/// For how long files keep still that somebody waits for. What is written in more than one go with a longer pause in it
/// counts as it stands until the next look.
const SETTLING: Duration = Duration::from_millis(20);

/// What a file looked like; nothing when it is not there.
type Look = Option<(u64, u64, u64, i64, i64, i64)>;

/// Watches a set of files.
pub(crate) struct Watcher {
    files: Vec<PathBuf>,
    taken_up: Vec<Look>,
    hangup: Option<Signal>,
    /// Whether a SIGHUP has come that nobody was told of: a caller that waits for a change may be called away from it.
    has_hung_up: bool,
}

/// What a [`Watcher`] has noticed.
pub(crate) enum Change {
    /// The files that are other than before.
    Files(Vec<PathBuf>),
    /// SIGHUP: read everything again.
    Hangup,
}

impl Watcher {
    /// Watches `files` as they are now.
    pub(crate) async fn new(files: Vec<PathBuf>) -> Self {
        let taken_up = look_at(&files).await;
        Self { files, taken_up, hangup: None, has_hung_up: false }
    }

    /// Takes SIGHUP as a change. From here on it does not end the process, so this is not for one
    /// that shall end with its terminal.
    pub(crate) fn and_hangups(self) -> Result<Self, Error> {
        let failed = |_| Error::with(Code::Internal, SafeText::words("SIGHUP can't be handled"));
        let hangup = Some(signal(SignalKind::hangup()).map_err(failed)?);
        Ok(Self { hangup, ..self })
    }

    /// Watches these from now on; what is already watched keeps its last look.
    pub(crate) async fn watch(&mut self, files: Vec<PathBuf>) {
        let fresh = look_at(&files).await;
        let known = |file: &PathBuf| self.files.iter().position(|other| other == file);
        let looks = files.iter().zip(fresh);
        self.taken_up =
            looks.map(|(file, fresh)| known(file).map_or(fresh, |at| self.taken_up[at])).collect();
        self.files = files;
    }

    /// Resolves when something has changed.
    pub(crate) async fn changed(&mut self) -> Change {
        let mut last = self.taken_up.clone();
        loop {
            if self.has_hung_up {
                self.taken_up = look_at(&self.files).await;
                self.has_hung_up = false;
                return Change::Hangup;
            }
            tokio::select! {
                () = hung_up(&mut self.hangup) => {
                    self.has_hung_up = true;
                    continue;
                }
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let now = look_at(&self.files).await;
            if now == last && now != self.taken_up {
                return self.take_up(now);
            }
            last = now;
        }
    }

    /// What has changed by now, if anything has: for a caller that begins something that shall be by these files.
    pub(crate) async fn changed_by_now(&mut self) -> Option<Change> {
        let mut last = look_at(&self.files).await;
        while last != self.taken_up {
            tokio::time::sleep(SETTLING).await;
            let now = look_at(&self.files).await;
            if now == last {
                return Some(self.take_up(now));
            }
            last = now;
        }
        None
    }

    fn take_up(&mut self, now: Vec<Look>) -> Change {
        let looks = self.files.iter().zip(now.iter().zip(&self.taken_up));
        let changed = looks.filter(|(_, (now, before))| now != before);
        let changed = changed.map(|(file, _)| file.clone()).collect();
        self.taken_up = now;
        Change::Files(changed)
    }
}

/// The entry of the log about what came of a change: which files, and whether they are in force or `why_not`. What stands in them is
/// not told, nor is an error's excerpt of it.
pub(crate) fn entry(
    who: Agent,
    change: &Change,
    policy: &[PathBuf],
    why_not: Option<&Error>,
) -> Draft {
    let (files, why) = match change {
        Change::Files(changed) => (changed.as_slice(), "changed"),
        Change::Hangup => (policy, "read again, by SIGHUP"),
    };
    let mut target = SafeText::default();
    for (number, file) in files.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        target = target.and(comma).as_they_wrote_in_full(&file.to_string_lossy());
    }
    let (outcome, force) = match why_not {
        None => (Outcome::Success, "in force"),
        Some(_) => (Outcome::Error, "not in force: what was before still is"),
    };
    let mut entry = plain_entry(who, Action::ConfigReload, outcome, Target::Named(target));
    entry.detail.note = Some(format!("{why}, {force}"));
    entry.error_code = why_not.map(Error::code);
    entry
}

/// Resolves at the next SIGHUP; never where it is not listened to.
pub(crate) async fn hung_up(hangup: &mut Option<Signal>) {
    let received = match hangup {
        Some(hangup) => hangup.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

async fn look_at(files: &[PathBuf]) -> Vec<Look> {
    let files = files.to_vec();
    let looking = spawn_blocking(move || files.iter().map(|file| look(file)).collect());
    match looking.await {
        Ok(looks) => looks,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

fn look(file: &Path) -> Look {
    let seen = fs::metadata(file).ok()?;
    // The inode changes with a file that is moved into place, the rest with one that is written.
    let changed = (seen.ctime(), seen.ctime_nsec());
    Some((seen.dev(), seen.ino(), seen.size(), seen.mtime_nsec(), changed.0, changed.1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn a_turned_link_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(place(version)).unwrap();
            fs::write(place(version).join("token"), version).unwrap();
        }
        symlink("v1", place("..data")).unwrap();
        symlink("..data/token", place("token")).unwrap();
        let mut watcher = Watcher::new(vec![place("token"), place("other")]).await;
        symlink("v2", place("..tmp")).unwrap();
        fs::rename(place("..tmp"), place("..data")).unwrap();
        let Change::Files(changed) = watcher.changed().await else { panic!("a signal") };
        assert_eq!(changed, [place("token")]);
        assert!(watcher.changed_by_now().await.is_none());
        fs::write(place("other"), "now it is there").unwrap();
        let Change::Files(changed) = watcher.changed().await else { panic!("a signal") };
        assert_eq!(changed, [place("other")]);
        fs::write(place("other"), "and is another").unwrap();
        let Some(Change::Files(changed)) = watcher.changed_by_now().await else { panic!("none") };
        assert_eq!(changed, [place("other")]);
        assert!(watcher.changed_by_now().await.is_none());
    }

    #[test]
    fn what_came_of_a_change_is_told_without_what_stands_in_the_file() {
        let who = || crate::broker::agent("broker", "broker");
        let policy = [PathBuf::from("/home/u/config.toml"), PathBuf::from("/etc/roots.pem")];
        let changed = Change::Files(policy[..1].to_vec());
        let taken = entry(who(), &changed, &policy, None);
        let Target::Named(target) = &taken.target else { panic!("it has a name") };
        assert_eq!(target.as_str(), "/home/u/config.toml");
        assert_eq!(taken.detail.note.as_deref(), Some("changed, in force"));
        let excerpt = SafeText::words("config.toml: line 2 | password = 's3cret'");
        let refused = entry(
            who(),
            &Change::Hangup,
            &policy,
            Some(&Error::with(Code::ConfigInvalid, excerpt)),
        );
        let Target::Named(target) = &refused.target else { panic!("it has a name") };
        assert_eq!(target.as_str(), "/home/u/config.toml, /etc/roots.pem");
        assert_eq!(
            (refused.outcome, refused.error_code),
            (Outcome::Error, Some(Code::ConfigInvalid))
        );
        assert!(refused.detail.note.unwrap().contains("not in force"));
    }
}
