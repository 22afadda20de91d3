//! What no action sees of the machine, and no template is read from.

use std::path::PathBuf;

use keyless_core::Error;

use crate::{broker::Broker, config::Config, places::Places};

/// Keyless's own files, those with its keys and passwords, and those that values are read from, wherever they lie; and what
/// the operator hides from a run that is open.
pub(in crate::nl) async fn concealed(
    places: &Places,
    broker: &Broker,
) -> Result<Vec<PathBuf>, Error> {
    let mut all = places.all();
    all.extend(Config::load(&places.config_file())?.files_with_credentials());
    all.extend(broker.value_files().await?);
    all.extend(broker.hidden().all());
    Ok(all)
}
