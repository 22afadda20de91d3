//! Where values are kept, and whether each place can be asked at this moment.

use keyless_core::Error;
use keyless_vault::{Secret, SourceConfig, SourceReport};

use super::Overview;

/// The places of values.
#[derive(Clone, Debug)]
pub struct SourcesView {
    /// How many secrets the store itself keeps.
    pub local: usize,
    /// The other sources, each as it answered just now.
    pub reports: Vec<SourceReport>,
}

impl Overview {
    /// Asks each source how it is.
    pub async fn sources(&self) -> Result<SourcesView, Error> {
        let secrets = self.vault.list().await?;
        let is_local = |secret: &&Secret| matches!(secret.metadata.source, SourceConfig::Local);
        let local = secrets.iter().filter(is_local).count();
        Ok(SourcesView { local, reports: self.vault.sources().await? })
    }
}
