//! `keyless unlock` and `keyless lock`: a broker in the background, with the store open for a while.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    Config, KEYLESS_HOME, Places, Status, absolute_paths, counted, keyless_home, to_the_minute,
    vault::{Factor, Keyfile, Passphrase, RecoveryPhrase},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::{have_agreed, older_broker, open_store, opened_vault, other_version};
use crate::{args::UnlockArgs, prompt, ui::Ui};

pub(super) async fn run(ui: &Ui, args: UnlockArgs) -> Result<ExitCode, Error> {
    let (places, store) = open_store().await?;
    let socket = places.agent_socket();
    let status = keyless_daemon::service_status(&socket).await?;
    warn_of_other_versions(ui, &places, status.as_ref()).await;
    if args.code {
        return by_code(ui, &socket, args.window).await;
    }
    let open = status.filter(|status| !status.locked);
    let config = Config::load(&places.config_file())?;
    // Where files say something new, the factor is asked for all the same.
    if let Some(status) = &open
        && !keyless_daemon::may_lack_agreement(&places, &config)
    {
        return Ok(unlocked_already(ui, status, args.window));
    }
    let (mut word, mut factor) = ("", Zeroizing::default());
    let given = || {
        (word, factor) = if args.recovery {
            ("recovery", prompt::recovery_phrase()?)
        } else if let Some(file) = &args.factor.keyfile {
            prompt::keyfile(file)?;
            // The broker runs elsewhere; the file itself goes nowhere.
            let file = absolute_paths(Some(file.as_path())).remove(0);
            ("keyfile", Zeroizing::new(file.to_string_lossy().into_owned()))
        } else {
            ("passphrase", prompt::passphrase(&args.factor)?)
        };
        factor_of(word, factor.clone())
    };
    // Tried here, so that a wrong one is told at once.
    let vault = opened_vault(store, &args.factor, given).await?;
    let config = have_agreed(&places, &vault, config, &args.factor).await?;
    if let Some(status) = open {
        return Ok(unlocked_already(ui, &status, args.window));
    }
    let window = config.unlock.window(args.window)?;
    if args.window.is_some_and(|asked| asked > window.length) {
        ui.warn(format!(
            "the store stays open for {} at most",
            to_the_minute(window.length.as_secs())
        ));
    }
    let seconds = window.length.as_secs();
    // Of unlocks at once the first starts a broker, and the others find it.
    let _turn = keyless_daemon::unlocking_turn(&places).await?;
    // It may listen where the environment of whoever was first says.
    let socket = places.where_served().agent_socket();
    let status = keyless_daemon::service_status(&socket).await?;
    if let Some(status) = status.as_ref().filter(|status| !status.locked) {
        return Ok(unlocked_already(ui, status, args.window));
    }
    if status.is_some() {
        // A stronger factor starts a new broker; what stood on the old one ends, and not before the factor is known
        // to be right.
        keyless_daemon::lock_service(&socket).await?;
    }
    start_broker(word, &factor, seconds)?;
    let data = json!({ "unlocked": true, "locks_in_seconds": seconds });
    let words =
        format!("Unlocked for {}. keyless lock closes the store.\n", to_the_minute(seconds));
    ui.answer("unlock", &data, &words);
    Ok(ExitCode::SUCCESS)
}

fn unlocked_already(ui: &Ui, status: &Status, asked: Option<Duration>) -> ExitCode {
    let data = json!({ "unlocked": true, "locks_in_seconds": status.locks_in_seconds });
    let rest = to_the_minute(status.locks_in_seconds);
    let words = match asked {
        None => format!("Unlocked already, for another {rest}.\n"),
        Some(_) => format!(
            "Unlocked already, for another {rest}; --for did not change that: keyless lock first, then unlock.\n"
        ),
    };
    ui.answer("unlock", &data, &words);
    ExitCode::SUCCESS
}

/// An update leaves a running broker as it is, and this command may leave it so as well.
async fn warn_of_other_versions(ui: &Ui, places: &Places, status: Option<&Status>) {
    if let Some(other) = status.and_then(Status::other_version) {
        ui.warn(other_version(&other));
    }
    for older in keyless_daemon::older_brokers(places).await {
        ui.warn(older_broker(&older));
    }
}

/// The running broker opens its store again; its sessions never ended.
async fn by_code(ui: &Ui, socket: &Path, asked: Option<Duration>) -> Result<ExitCode, Error> {
    let code = prompt::totp_code()?;
    let asked = asked.map(|asked| asked.as_secs());
    let seconds = keyless_daemon::reopen_service(socket, &code, asked).await?;
    let data = json!({ "unlocked": true, "locks_in_seconds": seconds });
    ui.answer("unlock", &data, &format!("Unlocked again for {}.\n", to_the_minute(seconds)));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn lock(ui: &Ui) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let socket = places.agent_socket();
    // A broker that hangs keeps none of the others open.
    let alone = keyless_daemon::end_runs_alone(&places);
    let (own, others) = tokio::join!(lock_own(&socket), keyless_daemon::older_brokers(&places));
    let alone = alone?;
    // Nothing is said to be locked that an older one still has open.
    let (mut older_was_open, mut hangs) = (false, None);
    for older in others {
        if older.status.is_none() {
            hangs = Some(older.hangs());
            continue;
        }
        older_was_open |= keyless_daemon::lock_service(&older.socket).await?;
        ui.warn(format!("{}; it was ended too", older.in_words()));
    }
    let (own_was_open, sessions) = own?;
    let was_open = own_was_open || older_was_open;
    if let Some(hangs) = hangs {
        return Err(hangs);
    }
    let words = match (was_open, alone) {
        // What stands in a session's terminal is its command's own word, an error of TLS mostly.
        (true, 0) if sessions > 0 => {
            let sessions = counted(usize::try_from(sessions).unwrap_or(usize::MAX), "session");
            format!(
                "Locked; with it {sessions}: what a command in there asks for is cut off, and keyless run has to start it anew.\n"
            )
        }
        (true, 0) => "Locked.\n".to_owned(),
        (false, 0) => "It was locked already.\n".to_owned(),
        (_, alone) => {
            let runs = counted(alone, "run");
            format!("Locked; with it {runs} that had opened the store by a factor of their own.\n")
        }
    };
    let data = json!({
        "locked": true, "was_unlocked": was_open, "runs_ended": alone, "sessions_ended": sessions,
    });
    ui.answer("lock", &data, &words);
    Ok(ExitCode::SUCCESS)
}

/// Closes the store of this environment's own broker: whether it was open, and how many sessions ended with it. One that
/// hangs is waited for once.
async fn lock_own(socket: &Path) -> Result<(bool, u64), Error> {
    let status = match keyless_daemon::service_status(socket).await {
        Err(error) if error.code() == Code::BrokerHangs => {
            keyless_daemon::leave_lock(socket).await;
            return Err(error);
        }
        other => other.ok().flatten(),
    };
    let sessions = status.map_or(0, |status| status.sessions);
    Ok((keyless_daemon::lock_service(socket).await?, sessions))
}

/// The factor as the vault takes it, from its word on the broker's stdin.
pub(super) fn factor_of(word: &str, text: Zeroizing<String>) -> Result<Factor, Error> {
    match word {
        "keyfile" => Ok(Factor::Keyfile(Keyfile::read(Path::new(text.as_str()))?)),
        "passphrase" => Ok(Factor::Passphrase(Passphrase::new(text))),
        "recovery" => Ok(Factor::Recovery(RecoveryPhrase::parse(&text)?)),
        _ => Err(Code::Usage.into()),
    }
}

/// Starts this executable as a broker and waits until it listens. The factor goes through a pipe:
/// no argument, environment or file has it.
fn start_broker(word: &str, factor: &str, seconds: u64) -> Result<(), Error> {
    let failed = |_| Error::with(Code::Internal, SafeText::words("the broker can't be started"));
    // It outlives this process: what a script holds open here, a lock or a pipe, is not to wait for it.
    keyless_daemon::close_on_exec_above_stderr().map_err(failed)?;
    let mut child = Command::new(keyless_daemon::this_program().map_err(failed)?)
        // As `ps` has it; the program itself is `/proc/self/exe`.
        .arg0("keyless")
        .args(["broker", "--factor-stdin", "--for", &format!("{seconds}s")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .envs(keyless_home()?.map(|home| (KEYLESS_HOME, home)))
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        let parts = [word, " ", factor];
        parts.iter().try_for_each(|part| stdin.write_all(part.as_bytes())).map_err(failed)?;
    }
    let mut answer = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut answer).map_err(failed)?;
    }
    if answer.trim() == "ready" { Ok(()) } else { Err(why_it_ended(&answer)) }
}

/// What a broker that did not come up said last, as [`refusal`] has it.
fn why_it_ended(answer: &str) -> Error {
    let told: Option<[String; 2]> = serde_json::from_str(answer).ok();
    told.map_or_else(
        || {
            let words = "the broker ended without a word; try keyless broker to see why";
            Error::with(Code::Internal, SafeText::words(words))
        },
        |[code, detail]| keyless_daemon::told_error(&code, &detail),
    )
}

/// What a broker says in place of `ready`.
pub(super) fn refusal(error: &Error) -> String {
    json!([error.code().as_str(), error.detail().to_string()]).to_string()
}
