//! `pack adopt-secret`: the one command of the pack that needs the vault. The value goes from the file into the vault
//! and nowhere else.

use std::{
    io::{IsTerminal as _, stdin},
    path::PathBuf,
};

use clap::Args;
use keyless_core::{ALIAS_PREFIX, SecretPath};
use keyless_pack::{Code, Found, PackError, Where, commands};
use zeroize::Zeroizing;

use super::{Call, Outcome, runtime, words};
use crate::{args::FactorArgs, commands::secret, visible::one_line};

#[derive(Debug, Args)]
pub(crate) struct AdoptWords {
    /// The module that holds it
    #[arg(required_unless_present = "file")]
    module_id: Option<String>,
    /// A file that holds it, in place of a module
    #[arg(long, value_name = "FILE", conflicts_with = "module_id")]
    file: Option<PathBuf>,
    /// Which one, where there are several
    #[arg(long, value_name = "FILE:LINE", value_parser = place)]
    at: Option<(String, usize)>,
    /// The secret's path in the vault, as scope/service/purpose
    #[arg(long, value_name = "PATH")]
    path: SecretPath,
    #[command(flatten)]
    factor: FactorArgs,
}

fn place(text: &str) -> Result<(String, usize), String> {
    let (file, line) = text.rsplit_once(':').ok_or("a file and a line, as in review.md:3")?;
    let line = line.parse().map_err(|_| "the line is a number")?;
    Ok((file.to_owned(), line))
}

impl AdoptWords {
    fn place(&self) -> Where {
        match (&self.file, &self.module_id) {
            (Some(file), _) => Where::File(file.clone()),
            (None, id) => Where::Module(id.clone().unwrap_or_default()),
        }
    }
}

impl Call<'_> {
    pub(super) fn adopt(&self, adopt: &AdoptWords) -> Outcome {
        keyless_daemon::harden();
        let at = adopt.at.as_ref().map(|(file, line)| (file.as_str(), *line));
        let found =
            commands::find_credential(&self.surroundings, &self.request, &adopt.place(), at)?;
        let (finding, path) = (found.finding(), &adopt.path);
        // What is in a pipe may be the passphrase, never the answer.
        let yes = if stdin().is_terminal() {
            let start = found.started_by_run().map(|server| {
                let server = one_line(server);
                format!(", and have keyless run start the server {server}, which gets it so")
            });
            self.plain_yes(&format!(
                "Move what is in {}:{} ({}) into the vault as {path}{}?",
                found.place().display(),
                finding.line,
                finding.kind,
                start.unwrap_or_default()
            ))?
        } else {
            self.args.global.yes
        };
        commands::confirmed(yes, "adopt-secret")?;
        self.take_in(&found, adopt)?;
        let reference = format!("{ALIAS_PREFIX}{path}");
        let answer = commands::adopt_credential(&found, &reference, yes).map_err(|error| {
            let hint = format!("the value is in the vault; write {reference} in its place by hand");
            error.hint(&hint)
        })?;
        self.answer(answer, words::adopt)
    }

    fn take_in(&self, found: &Found, adopt: &AdoptWords) -> Outcome {
        let (value, pattern) =
            (Zeroizing::new(found.value().to_vec()), found.finding().pattern.as_deref());
        let taken =
            runtime()?.block_on(secret::adopt(self.ui, &adopt.factor, &adopt.path, pattern, value));
        taken.map_err(|error| {
            let path = &adopt.path;
            if error.code() == keyless_core::Code::SecretExists {
                let hint = format!(
                    "give another --path, or have {path} be this one where it is its new value: keyless secret rotate {path}, \
                     then this command again"
                );
                let message = format!("{path} holds another value, and the file stays as it is");
                return PackError::new(Code::VaultRefused, message)
                    .with("keyless_code", error.code().as_str())
                    .hint(&hint);
            }
            let message =
                format!("the vault did not take it, and the file stays: {}", error.message());
            PackError::new(Code::VaultRefused, message)
                .with("keyless_code", error.code().as_str())
                .hint(error.code().remediation().action)
        })
    }
}
