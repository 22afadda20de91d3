//! `keyless secret reveal`: a value before a person's eyes, or in their clipboard for a while.
//!
//! It never goes to stdout: what is piped or captured may be an agent's. An agent in a jail has neither the store nor
//! the factor, and is told so.

mod clipboard;

use std::io::{IsTerminal, stderr};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{Operator, vault::Vault};
use serde_json::json;
use tokio::time::sleep;
use zeroize::Zeroizing;

use self::clipboard::Clipboard;
use super::unlock_with;
use crate::{args::RevealArgs, prompt, ui::Ui};

pub(super) async fn run(ui: &Ui, args: RevealArgs) -> Result<(), Error> {
    refuse_without_person(ui)?;
    let (_, vault) = unlock_with(&args.path, &args.factor).await?;
    let place = if args.clipboard { "in your clipboard" } else { "on this screen" };
    if !args.yes && !prompt::confirm(&format!("Show the value of {} {place}?", args.path))? {
        ui.line("Nothing was shown.");
        return Ok(());
    }
    if args.clipboard { copy(ui, vault, &args).await } else { show(vault, &args).await }
}

/// Programs get no value, whichever way they ask.
fn refuse_without_person(ui: &Ui) -> Result<(), Error> {
    if keyless_daemon::is_inside_session() {
        let words = SafeText::words("a value is shown outside of it");
        return Err(Error::with(Code::InsideSession, words));
    }
    if ui.is_json() || !stderr().is_terminal() {
        let words = "a value is shown to a person at a terminal, and in no other way";
        return Err(Error::with(Code::TerminalRequired, SafeText::words(words)));
    }
    prompt::need_terminal("a terminal")
}

async fn show(vault: Vault, args: &RevealArgs) -> Result<(), Error> {
    let head = format!("The value of {}:\r\n\r\n", args.path);
    let text = Operator::new(vault)
        .reveal(&args.path, "at the terminal", |value| {
            let value = std::str::from_utf8(value).ok()?;
            // Room for everything at once, so that growing leaves no copies behind.
            let mut text =
                Zeroizing::new(String::with_capacity(head.len() + 10 * value.len() + 64));
            text.push_str(&head);
            value.chars().for_each(|character| push_visible(&mut text, character));
            text.push_str("\r\n\r\nEnter hides it. ");
            Some(text)
        })
        .await?;
    let text = text.ok_or_else(|| {
        Error::with(Code::Usage, SafeText::words("the value is no text; --clipboard takes it"))
    })?;
    prompt::show(&text)
}

/// What a terminal would obey is shown as what it is.
fn push_visible(text: &mut String, character: char) {
    match character {
        '\n' => text.push_str("\r\n"),
        ' '..='~' => text.push(character),
        _ if character.is_alphanumeric() => text.push(character),
        _ => text.extend(character.escape_unicode()),
    }
}

async fn copy(ui: &Ui, vault: Vault, args: &RevealArgs) -> Result<(), Error> {
    let clipboard = Clipboard::here();
    let held = Operator::new(vault)
        .reveal(&args.path, "in the clipboard", |value| clipboard.put(value))
        .await??;
    let seconds = args.life.as_secs();
    ui.line(&format!("It is in the clipboard for {seconds} s; Ctrl-C takes it out at once."));
    tokio::select! {
        () = sleep(args.life) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    let words = if clipboard.clear(&held)? {
        "The clipboard is empty again.\n"
    } else {
        "Something else is in the clipboard by now; it was left there.\n"
    };
    ui.answer("secret reveal", &json!({ "path": args.path }), words);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_move_the_cursor() {
        let mut text = String::new();
        "a\u{1b}[2J\u{202e}ü\nb".chars().for_each(|character| push_visible(&mut text, character));
        assert_eq!(text, "a\\u{1b}[2J\\u{202e}ü\r\nb");
    }
}
