//! `keyless ui`: everything that an operator sees and does, full screen, for people in a terminal.
//!
//! ```text
//!   keys ──► App (state, pure) ──► Act ──► Office ──► broker, vault
//!               │                            │
//!             draw ◄── what they said last ◄─┘
//! ```
//!
//! The same service answers here and at the page: an [`Approver`](keyless_daemon::Approver) for requests, an
//! [`Overview`](keyless_daemon::Overview) for the rest.

mod app;
mod dialog;
mod door;
mod draw;
mod entrance;
mod form;
mod keys;
mod modal;
mod office;
mod pieces;
mod rooms;
mod screen;
mod theme;

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use keyless_core::{Code, Error, SafeText};

pub(super) use self::dialog::ValueScene;
use self::{
    app::{Act, App},
    entrance::come_in,
    office::{Office, refuse},
    screen::{Screen, forget_keys, next_press},
    theme::Mood,
};
use crate::{args::UiArgs, prompt, ui::Ui};

/// How often it is asked what waits.
const LOOK: Duration = Duration::from_millis(500);

/// Why the screen was left for a while.
enum Left {
    /// The person has gone.
    Gone,
    /// The store was closed by the person.
    Locked,
    /// The factor has to be proven once more, for this act if there is one.
    Unproven(Option<Act>),
}

pub(super) async fn run(ui: &Ui, args: UiArgs) -> Result<ExitCode, Error> {
    if ui.is_json() || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let words = "programs and pipes use keyless approve --list --json";
        return Err(Error::with(Code::TerminalRequired, SafeText::words(words)));
    }
    let (mut app, mut why, mut held) = (App::default(), "", None);
    loop {
        // Nothing of the vault is in memory while it is asked for.
        let Some(mut office) = come_in(&args.factor, why).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        if let Some(act) = held.take() {
            Box::pin(office.perform(&mut app, act)).await?;
        }
        match Box::pin(watch(&mut office, &mut app)).await? {
            Left::Gone => return Ok(ExitCode::SUCCESS),
            Left::Locked => {
                office.lock().await?;
                if prompt::factor_file(&args.factor).is_some() {
                    ui.line("Locked: every session has ended.");
                    return Ok(ExitCode::SUCCESS);
                }
                (app, why) = (App::default(), "Locked: every session has ended.");
            }
            Left::Unproven(act) => (why, held) = ("Prove your factor once more to go on.", act),
        }
    }
}

/// Shows the screen until it is left.
async fn watch(office: &mut Office, app: &mut App) -> Result<Left, Error> {
    let mut screen = Screen::enter()?;
    loop {
        match turn(office, app, &mut screen).await {
            Ok(None) => {}
            Ok(Some(left)) => return Ok(left),
            // A proof of the factor holds for ten minutes.
            Err(error) if error.code() == Code::OperatorRequired => {
                return Ok(Left::Unproven(None));
            }
            Err(error) if error.code() == Code::BrokerNotRunning => {
                app.say("The broker has ended; the store is asked by itself.", Mood::Warn);
                return Ok(Left::Unproven(None));
            }
            Err(error) => return Err(error),
        }
    }
}

/// One look, one picture, and at most one key.
async fn turn(
    office: &mut Office,
    app: &mut App,
    screen: &mut Screen,
) -> Result<Option<Left>, Error> {
    office.look(app).await?;
    screen.draw(app)?;
    let Some(press) = next_press(LOOK)? else { return Ok(None) };
    let was_open = app.dialog.is_some();
    match app.press(press) {
        None => {}
        Some(Act::Leave) => return Ok(Some(Left::Gone)),
        Some(Act::Lock) => return Ok(Some(Left::Locked)),
        Some(act @ Act::Check(_)) => {
            app.say("Its service is asked …", Mood::Plain);
            screen.draw(app)?;
            office.perform(app, act).await?;
            forget_keys()?;
        }
        Some(act) => match office.wants_proof(&act) {
            Ok(true) => return Ok(Some(Left::Unproven(Some(act)))),
            Ok(false) => office.perform(app, act).await?,
            // A config.toml that is being edited is no reason to be thrown out.
            Err(error) => refuse(app, was_open, &error),
        },
    }
    if app.dialog.is_some() && !was_open {
        screen.draw(app)?;
        forget_keys()?;
    }
    if let Some(dialog) = &mut app.dialog {
        dialog.takes_keys = true;
    }
    Ok(None)
}
