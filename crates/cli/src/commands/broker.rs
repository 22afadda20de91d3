//! `keyless broker`: the service that `unlock` starts, also for service managers.

mod install;

use std::{fs::File, io::Read, os::fd::AsFd, process::ExitCode, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{Broker, Config, EgressDoor, vault::Factor};
use zeroize::Zeroizing;

use super::{
    have_agreed, open_store,
    unlock::{factor_of, refusal},
};
use crate::{
    args::{BrokerArgs, BrokerCommand},
    prompt,
    ui::Ui,
};

/// More than a file of a passphrase may have, and no path is longer.
const MAX_FACTOR: usize = 8 * 1024;

pub(super) async fn run(ui: &Ui, args: BrokerArgs) -> Result<ExitCode, Error> {
    if let Some(BrokerCommand::Install(install)) = &args.command {
        return install::run(ui, install);
    }
    let started_by_unlock = args.factor_stdin;
    let served = serve(ui, args).await;
    if let Err(error) = &served
        && started_by_unlock
    {
        Ui::verbatim(&refusal(error));
    }
    served
}

async fn serve(ui: &Ui, args: BrokerArgs) -> Result<ExitCode, Error> {
    keyless_daemon::refuse_traced()?;
    let (places, store) = open_store().await?;
    let factor =
        if args.factor_stdin { factor_from_stdin()? } else { prompt::factor(&args.factor)? };
    let config = Config::load(&places.config_file())?;
    let vault = keyless_daemon::open_vault(store, factor).await?;
    let config = if args.factor_stdin {
        // Whoever unlocked it was asked.
        keyless_daemon::check_agreed(&places, &vault, config).await?
    } else {
        have_agreed(&places, &vault, config, &args.factor).await?
    };
    let vault = Arc::new(keyless_daemon::with_sources(vault, &places, &config)?);
    let door = EgressDoor::new(&config)?;
    let log = keyless_daemon::audit_log(&vault);
    if args.factor_stdin {
        // Away from the terminal that started it: a closed window does not close the store.
        let _ = rustix::process::setsid();
    }
    let ready = Box::new(|_| {
        if args.factor_stdin {
            Ui::verbatim("ready");
        } else {
            ui.line(&format!("Listening on {}.", places.agent_socket().display()));
        }
    });
    let window = config.unlock.window(args.window)?;
    let broker = Broker::asking_at_least(window.floor, door, vault, log);
    keyless_daemon::serve(broker, places.clone(), window, &config, ready).await?;
    Ok(ExitCode::SUCCESS)
}

/// Its word, then what it is, to the end: a passphrase from a file may have lines.
fn factor_from_stdin() -> Result<Factor, Error> {
    let mut all = Zeroizing::new(String::with_capacity(MAX_FACTOR));
    let fault = || Error::with(Code::Usage, SafeText::words("no factor on stdin"));
    // Past the buffer of `std::io::stdin`, which nobody wipes.
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(|_| fault())?;
    let mut limited = File::from(stdin).take(MAX_FACTOR as u64);
    limited.read_to_string(&mut all).map_err(|_| fault())?;
    let (word, text) = all.split_once(' ').ok_or_else(fault)?;
    factor_of(word, Zeroizing::new(text.to_owned()))
}
