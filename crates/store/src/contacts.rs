//! When each source beside the store was last in touch, and how it was then.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    engine::query,
    store::{Store, StoreError},
};

/// The last time that a source was asked for a value or given one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceContact {
    /// When that was.
    pub at: Timestamp,
    /// How the source was then: the word of its state.
    pub outcome: String,
}

impl Store {
    /// Puts a contact in the place of the one before it. On disk when this returns.
    pub async fn record_source_contact(
        &self,
        source: &str,
        contact: &SourceContact,
    ) -> Result<(), StoreError> {
        query(
            "INSERT INTO source_contacts (source, at, outcome) VALUES ($1, $2, $3) \
             ON CONFLICT (source) DO UPDATE SET at = excluded.at, outcome = excluded.outcome",
        )
        .bind(source)
        .bind(contact.at.to_string())
        .bind(&contact.outcome)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The last contact of each source that ever had one. A row that can't be read is left out.
    pub async fn source_contacts(&self) -> Result<BTreeMap<String, SourceContact>, StoreError> {
        let rows = query("SELECT source, at, outcome FROM source_contacts");
        let rows = rows.fetch_all(&self.pool).await?;
        let mut contacts = BTreeMap::new();
        for row in &rows {
            let at: &str = row.try_get(1)?;
            if let Ok(at) = at.parse() {
                contacts.insert(row.try_get(0)?, SourceContact { at, outcome: row.try_get(2)? });
            }
        }
        Ok(contacts)
    }
}
