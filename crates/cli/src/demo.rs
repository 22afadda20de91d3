//! The demo.

use std::process::ExitCode;

use keyless_core::Error;

use crate::ui::Ui;

pub(crate) async fn run(_ui: &Ui) -> Result<ExitCode, Error> {
    Ok(ExitCode::SUCCESS)
}
