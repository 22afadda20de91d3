//! `keyless ui`: the way in, what waits and what holds, full screen, for people in a terminal.
//!
//! It shows; a request is answered by the very questions of `keyless approve`, below the screen that is put aside
//! meanwhile, so that nothing is decided by a key that was meant for the request before.

mod board;
mod door;
mod entrance;
mod modal;
mod screen;

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{ApproverHandle, Shown};

use self::{
    board::{Board, Room},
    entrance::come_in,
    screen::{Key, Screen, next_key},
};
use super::approve::{ask, describe, told};
use crate::{args::UiArgs, prompt, ui::Ui};

/// How often it is asked what waits.
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn run(ui: &Ui, args: UiArgs) -> Result<ExitCode, Error> {
    if ui.is_json() || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let words = "programs and pipes use keyless approve --list --json";
        return Err(Error::with(Code::TerminalRequired, SafeText::words(words)));
    }
    let Some(mut approver) = come_in(&args.factor).await? else { return Ok(ExitCode::SUCCESS) };
    let mut board = Board::default();
    loop {
        let chosen = watch(&mut approver, &mut board).await;
        match chosen {
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Ok(Some(request)) => board.notice = settle(ui, &mut approver, &board, &request).await,
            // A proof of the factor holds for ten minutes.
            Err(error) if error.code() == Code::OperatorRequired => {
                "The proof of your factor had ended.".clone_into(&mut board.notice);
                let Some(again) = come_in(&args.factor).await? else {
                    return Ok(ExitCode::SUCCESS);
                };
                approver = again;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Shows the board until a request is chosen; nothing when the person leaves.
async fn watch(approver: &mut ApproverHandle, board: &mut Board) -> Result<Option<Shown>, Error> {
    let mut screen = Screen::enter()?;
    loop {
        board.take(approver.pending().await?, approver.standing().await?);
        screen.draw(board)?;
        match next_key(LOOK)? {
            Some(Key::Down) => board.step(1),
            Some(Key::Leave) => return Ok(None),
            Some(Key::Other) => board.change_room(),
            Some(Key::ReadBack) => board.read_back(),
            Some(Key::ReadOn) => board.read_on(describe),
            Some(Key::Take) => {
                if let Some(request) = board.chosen() {
                    return Ok(Some(request.clone()));
                }
            }
            Some(Key::Up) => board.step(-1),
            None => {}
        }
    }
}

/// Answers a request, or takes an approval back, in the terminal itself. Gives what became of it, in a line.
async fn settle(ui: &Ui, approver: &mut ApproverHandle, board: &Board, request: &Shown) -> String {
    ui.line(&describe(request));
    let settled = match board.room {
        Room::Waiting => answer(ui, approver, request).await,
        Room::Holding => take_back(approver, request).await,
    };
    settled.unwrap_or_else(|error| {
        format!("{} Next: {}.", error.message(), error.code().remediation().action)
    })
}

async fn answer(ui: &Ui, approver: &mut ApproverHandle, request: &Shown) -> Result<String, Error> {
    let (answer, value) = ask(ui, request)?;
    let settled = approver.answer(&request.id, answer, value).await?;
    Ok(told(&settled).trim_end().to_owned())
}

async fn take_back(approver: &mut ApproverHandle, request: &Shown) -> Result<String, Error> {
    if !prompt::confirm("Take it back?")? {
        return Ok(format!("{}: nothing was changed.", request.id));
    }
    approver.take_back(&request.id).await?;
    Ok(format!("{} has no effect any more.", request.id))
}
