//! `keyless broker`: the service that `unlock` starts, also for service managers.

mod install;

use std::{io::BufRead, process::ExitCode, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    Broker, EgressDoor,
    vault::{Factor, Vault},
};
use zeroize::Zeroizing;

use super::{config, open_store, unlock::factor_of};
use crate::{
    args::{BrokerArgs, BrokerCommand, RouteArgs},
    prompt,
    ui::Ui,
};

pub(super) async fn run(ui: &Ui, args: BrokerArgs) -> Result<ExitCode, Error> {
    if let Some(BrokerCommand::Install(install)) = &args.command {
        return install::run(ui, install);
    }
    let (places, store) = open_store().await?;
    let factor =
        if args.factor_stdin { factor_from_stdin()? } else { prompt::factor(&args.factor)? };
    let config = config(&places, &RouteArgs::default())?;
    let vault = Vault::unlock(store, factor).await?;
    let vault = Arc::new(keyless_daemon::with_sources(vault, &places, &config)?);
    let door = EgressDoor::new(&config)?;
    let log = keyless_daemon::audit_log(&vault);
    if args.factor_stdin {
        // Away from the terminal that started it: a closed window does not close the store.
        let _ = rustix::process::setsid();
    }
    let ready = |_| {
        if args.factor_stdin {
            println!("ready");
        } else {
            ui.line(&format!("Listening on {}.", places.agent_socket().display()));
        }
    };
    let window = config.unlock.window(args.window)?;
    let broker = Broker::asking_at_least(window.floor, door, vault, log);
    keyless_daemon::serve(broker, places.clone(), window, &config, ready).await?;
    Ok(ExitCode::SUCCESS)
}

fn factor_from_stdin() -> Result<Factor, Error> {
    let mut line = Zeroizing::new(String::with_capacity(4096));
    let fault = || Error::with(Code::Usage, SafeText::words("no factor on stdin"));
    std::io::stdin().lock().read_line(&mut line).map_err(|_| fault())?;
    let (word, text) = line.trim_end_matches('\n').split_once(' ').ok_or_else(fault)?;
    factor_of(word, Zeroizing::new(text.to_owned()))
}
