//! `keyless run`: a command that uses secrets without holding them.

mod exposed;

use std::{
    convert::Infallible,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::SystemTime,
};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    ApproveApply, Broker, Config, EgressDoor, Ended, Isolation, Places, Ran, RunSpec,
    SessionHandle, Wanted, absolute_paths,
    ci::{self, CiSession},
    manifest_of,
    vault::{IndexFile, Manifest, SecretsFile},
};
use rustix::fs::{Stat, fstat, stat};

use super::{config, have_agreed, open_store, opened_vault, other_version, slips::nearest};
use crate::{
    args::{FactorArgs, RouteArgs, RunArgs},
    prompt,
    ui::{Ui, in_sentences},
};

pub(super) async fn run(ui: &Ui, args: RunArgs) -> Result<ExitCode, Error> {
    if keyless_daemon::is_inside_session() {
        match run_inside(&args).await? {}
    }
    let places = Places::from_environment()?;
    let wanted = match (&args.secret[..], args.no_secrets) {
        (_, true) => Wanted::Nothing,
        ([], false) => Wanted::All,
        (paths, false) => Wanted::These(paths.to_vec()),
    };
    let isolation = if args.no_jail { Isolation::ProxyOnly } else { Isolation::Jail };
    if isolation == Isolation::ProxyOnly {
        let values = if rustix::process::geteuid().is_root() {
            "As root it can read values out of Keyless's memory, too: run it from an account of its own"
        } else {
            "Values still stay with Keyless"
        };
        ui.warn(format!(
            "--no-jail: programs that ignore proxy variables go out directly, DNS can carry data out, \
             and the command can read your files and other processes of yours. {values}."
        ));
    }
    let hide = absolute_paths(args.hide.iter().map(PathBuf::as_path));
    let (session, home) = if ci::is_on() {
        let opened = open_ci_session(ui, &places, &args, &wanted).await?;
        (SessionHandle::Local(opened.session, None), Some(opened.home))
    } else {
        (open_session(ui, &places, &args, &wanted, &hide).await?, None)
    };
    warn_of_unnamed(ui, &session);
    say_what_stays_out(ui, &session);
    say_who_is_asked(ui, &session);
    let remove = exposed::settle(ui, &args, &session, &hide);
    if let Some(other) = session.other_version() {
        ui.warn(other_version(&other));
    }
    let config = Config::load(&places.config_file())?;
    keyless_daemon::note_home(&places);
    keyless_daemon::make_room(&places);
    let _open = (isolation == Isolation::Jail).then(keyless_daemon::note_open_run);
    let mut own = own_paths(&places, &args.factor, &config);
    own.extend(home.iter().map(|home| home.path().to_owned()));
    let asks = config.pack.approve_apply != ApproveApply::Never;
    let show = absolute_paths(args.show.iter().map(PathBuf::as_path));
    warn_of_covers(ui, &hide, &show, &own);
    if isolation == Isolation::Jail {
        warn_of_own_sandbox(ui, &args.command);
    }
    let one_word = args.command.clone();
    let spec = RunSpec {
        command: args.command,
        hide,
        show,
        own,
        isolation,
        remove,
        deploys_ask_at: asks.then(|| places.agent_socket()),
        entered_in: home.is_none().then(|| places.clone()),
    };
    let mut running = keyless_daemon::run(&spec, session);
    let ran = tokio::select! {
        ran = &mut running => ran,
        () = keyless_daemon::trust_ends_soon(SystemTime::now()) => {
            ui.warn(
                "in 4 hours or less the command stops trusting this session's certificates, and https to hosts of secrets fails: \
                 start it anew before",
            );
            running.await
        }
    };
    // Before a signal that the command died by ends this process too.
    drop(home);
    let Ran { ended, outlived_session, unrecorded } =
        ran.map_err(|error| with_shell(error, &one_word))?;
    if outlived_session {
        ui.warn(
            "the session was over before the command: the broker was locked or ended, or somebody ended the session. \
             What the command asked for after that was refused",
        );
    }
    if let Some(error) = unrecorded {
        ui.warn(format!(
            "the session is over, and its end could not be written to the log: {}",
            in_sentences(&error)
        ));
    }
    match ended {
        Ended::Code(code) => Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))),
        Ended::Signal(signal) => keyless_daemon::die_by_signal(signal),
    }
}

/// Codex starts every command in a sandbox, and tells only the model that it could not.
fn warn_of_own_sandbox(ui: &Ui, command: &[OsString]) {
    let name = command.first().and_then(|program| Path::new(program).file_name());
    let forgoes_it = |word: &OsString| {
        let word = word.to_string_lossy();
        word.ends_with("danger-full-access")
            || ["--dangerously-bypass-approvals-and-sandbox", "--yolo"].contains(&&*word)
    };
    if name.is_some_and(|name| name == "codex") && !command.iter().any(forgoes_it) {
        ui.warn(
            "Codex can't start the sandbox that it runs each command in, since this jail is one: \
             codex --sandbox danger-full-access does without",
        );
    }
}

/// A whole line in one word is a shell's.
fn with_shell(error: Error, command: &[OsString]) -> Error {
    match command {
        [line] if error.code() == Code::CommandNotFound && has_blank(line) => {
            let words = error.detail().clone();
            Error::with(
                error.code(),
                words
                    .and("; one word with blanks is no program: keyless run -- sh -c takes a line"),
            )
        }
        _ => error,
    }
}

fn has_blank(word: &OsString) -> bool {
    word.to_string_lossy().contains(char::is_whitespace)
}

/// A client that runs in a session starts its servers in that one.
async fn run_inside(args: &RunArgs) -> Result<Infallible, Error> {
    let RunArgs { secret, no_secrets, keep_env: _, hide, show, no_jail, routes, factor, command } =
        args;
    let as_it_is = !no_secrets && !no_jail && hide.is_empty() && show.is_empty();
    if !as_it_is || *routes != RouteArgs::default() || *factor != FactorArgs::default() {
        let words = "in a session keyless run takes --secret and a command, which joins that session as it is";
        return Err(Error::with(Code::InsideSession, SafeText::words(words)));
    }
    keyless_daemon::run_inside(command, secret).await
}

/// A session over this environment alone.
async fn open_ci_session(
    ui: &Ui,
    places: &Places,
    args: &RunArgs,
    wanted: &Wanted,
) -> Result<CiSession, Error> {
    let here = std::env::current_dir().ok();
    let manifest = here.map(|here| manifest_of(&here)).transpose()?.flatten();
    warn_of_unread(ui, places, manifest.as_deref());
    for unread in ci::unread_variables(places, wanted, manifest.as_deref()) {
        let meant = nearest(&unread.name, unread.read.iter(), String::as_str);
        let meant = meant.map_or_else(
            || "it belongs to no secret that is declared in .keyless/secrets.toml or named with --secret".to_owned(),
            |meant| format!("did you mean {meant}?"),
        );
        ui.warn(format!("nothing reads the variable {}: {meant}", unread.name));
    }
    let config = config(places, &args.routes)?;
    ci::open_session(places, &config, wanted, manifest.as_deref()).await
}

/// A session of the unlocked broker, or of one in this process when a passphrase is given.
async fn open_session(
    ui: &Ui,
    places: &Places,
    args: &RunArgs,
    wanted: &Wanted,
    hide: &[PathBuf],
) -> Result<SessionHandle, Error> {
    let routed = !args.routes.connect_to.is_empty() || !args.routes.extra_root.is_empty();
    let factor_file = prompt::factor_file(&args.factor);
    refuse_if_inherited(factor_file.as_deref())?;
    let manifest = match wanted {
        Wanted::Nothing => None,
        _ => std::env::current_dir().ok().map(|here| manifest_of(&here)).transpose()?.flatten(),
    };
    warn_of_unread(ui, places, manifest.as_deref());
    if factor_file.is_none() && !routed && *wanted != Wanted::Nothing {
        match keyless_daemon::open_remote_session(
            &places.agent_socket(),
            wanted,
            keyless_daemon::inherited(),
            manifest.clone(),
            hide,
        )
        .await
        {
            Ok(session) => return Ok(SessionHandle::Remote(session)),
            // Nobody is there: ask for the passphrase, below.
            Err(error) if error.code() == Code::Locked => {}
            Err(error) => return Err(error),
        }
    }
    let file = Config::load(&places.config_file())?;
    let RouteArgs { connect_to, extra_root } = &args.routes;
    let door = EgressDoor::new(&file.clone().with_flags(connect_to, extra_root)?)?;
    if *wanted == Wanted::Nothing {
        let session = keyless_daemon::open_bare_session(places, door, &file).await?;
        return Ok(SessionHandle::Local(session, None));
    }
    let (_, store) = open_store().await?;
    let factor = || {
        prompt::factor(&args.factor).map_err(|error| match error.code() {
            Code::TerminalRequired => {
                Error::with(Code::Locked, SafeText::words(why_it_asks(routed)))
            }
            _ => error,
        })
    };
    let vault = opened_vault(store, &args.factor, factor).await?;
    let agreed = have_agreed(places, &vault, file, &args.factor).await?;
    let config = agreed.with_flags(connect_to, extra_root)?;
    let vault = Arc::new(keyless_daemon::with_sources(vault, places, &config)?);
    let log = keyless_daemon::audit_log(&vault);
    let floor = config.unlock.window(None)?.floor;
    let broker = Broker::asking_at_least(floor, door, vault, log);
    let inherited = keyless_daemon::inherited();
    let mut hide = hide.to_vec();
    hide.extend(factor_file.iter().flat_map(|file| keyless_daemon::names_of(file)));
    let manifest = manifest.as_deref();
    keyless_daemon::open_own_session(broker, places, &config, wanted, &inherited, manifest, hide)
        .await
}

/// The command has the streams of this process: a file that is one of them it could read, whatever is covered.
fn refuse_if_inherited(factor_file: Option<&Path>) -> Result<(), Error> {
    let about = |of: rustix::io::Result<Stat>| of.ok().map(|about| (about.st_dev, about.st_ino));
    let Some(file) = factor_file.and_then(|file| Some((file, about(stat(file))?))) else {
        return Ok(());
    };
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    if !streams.into_iter().any(|stream| about(fstat(stream)) == Some(file.1)) {
        return Ok(());
    }
    let words =
        SafeText::words("the command would inherit ").as_they_wrote(&file.0.to_string_lossy());
    let words = words.and(", which opens the store, as its input or output; name the file with ");
    Err(Error::with(Code::Usage, words.and("--passphrase-file and don't redirect to or from it")))
}

/// Warns of each secret that was named for the run, or is declared by the project, and has no variable, so the command can't find its placeholder.
fn warn_of_unnamed(ui: &Ui, session: &SessionHandle) {
    for path in &session.environment().unnamed {
        let next = if ci::is_on() {
            format!("say env_var = \"NAME\" at [secret.\"{path}\"] in .keyless/secrets.toml")
        } else {
            format!("keyless secret set {path} --env NAME")
        };
        ui.warn(format!(
            "{path} has no variable, so the command finds no placeholder of it: {next}"
        ));
    }
}

/// Says how many stored secrets the command does not get: somebody who has just stored one looks for it there.
fn say_what_stays_out(ui: &Ui, session: &SessionHandle) {
    let secrets = match session.environment().undeclared {
        0 => return,
        1 => "1 more secret is".to_owned(),
        some => format!("{some} more secrets are"),
    };
    ui.aside(&format!("{secrets} not declared in .keyless/secrets.toml, and so not given to this run: --secret PATH names one."));
}

/// Where a person answers, said while the terminal is not the command's yet: in the midst of an agent's screen a line of
/// ours would spoil it.
fn say_who_is_asked(ui: &Ui, session: &SessionHandle) {
    let what = match &session.environment().asking[..] {
        [] => return,
        [one] => format!("{one} waits for your word at some uses or all"),
        [first, rest @ ..] => {
            format!("{first} and {} more wait for your word at some uses or all", rest.len())
        }
    };
    // In CI nobody is there to ask.
    if !ci::is_on() {
        ui.aside(&format!("{what}: keyless approve in another terminal, keyless ui or keyless web shows what waits."));
    }
}

/// What `--hide` and `--show` come to where that is not what was meant: a slip in a name hides nothing.
fn warn_of_covers(ui: &Ui, hide: &[PathBuf], show: &[PathBuf], own: &[PathBuf]) {
    for path in hide.iter().filter(|path| fs::symlink_metadata(path).is_err()) {
        ui.warn(format!("--hide {}: nothing is there, so nothing is hidden", path.display()));
    }
    for path in show.iter().filter(|path| own.iter().any(|own| path.starts_with(own))) {
        let place = path.display();
        ui.warn(format!("--show {place}: the command sees what Keyless keeps for itself there"));
    }
}

/// Words of the project and of the operator's index that can't be read: what may have asked for a person does.
pub(super) fn warn_of_unread(ui: &Ui, places: &Places, manifest: Option<&str>) {
    // One that is no TOML opens no session, which says why.
    let manifest = manifest.and_then(|text| Manifest::parse(text).ok()).unwrap_or_default();
    let index = IndexFile::load(&places.index_file()).unwrap_or_default();
    for fault in index.faults.iter().chain(&manifest.faults) {
        let asks = match (fault.of_any, &fault.path) {
            (true, _) => "; a person is asked at each use of any secret",
            (false, Some(_)) => "; a person is asked at each use",
            (false, None) => "",
        };
        ui.warn(format!("{fault}{asks}"));
    }
}

/// Why a run opens the store itself, for one that can't.
fn why_it_asks(routed: bool) -> &'static str {
    if routed {
        "routes and roots of this run alone want a broker of its own, and there is no terminal to ask \
         on; those in config.toml are the running broker's too"
    } else {
        "no broker is running and there is no terminal to ask on"
    }
}

fn own_paths(places: &Places, factor: &FactorArgs, config: &Config) -> Vec<PathBuf> {
    let mut own = keyless_daemon::files_of_all_homes(places);
    own.extend(config.files_with_credentials());
    own.extend(prompt::factor_file(factor).iter().flat_map(|file| keyless_daemon::names_of(file)));
    own.extend(keyless_daemon::remembered_passphrase_files(places));
    own.extend(SecretsFile::named().iter().flat_map(SecretsFile::files));
    absolute_paths(own.iter().map(PathBuf::as_path))
}
