//! How the codes of an authenticator app were judged, for whoever judges the next one.

use crate::{
    engine::query,
    store::{Store, StoreError},
};

impl Store {
    /// What the last judge wrote; none when no code was ever judged.
    pub async fn code_gate(&self) -> Result<Option<String>, StoreError> {
        let row = query("SELECT state FROM code_gate").fetch_optional(&self.pool).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    /// Puts `new` in the place of `old`; `false` when somebody was faster. On disk when this returns.
    pub async fn replace_code_gate(
        &self,
        old: Option<&str>,
        new: &str,
    ) -> Result<bool, StoreError> {
        let done = if let Some(old) = old {
            let update = "UPDATE code_gate SET state = $1 WHERE state = $2";
            query(update).bind(new).bind(old).execute(&self.pool).await?
        } else {
            let insert = "INSERT INTO code_gate (one, state) VALUES (1, $1) ON CONFLICT DO NOTHING";
            query(insert).bind(new).execute(&self.pool).await?
        };
        Ok(done == 1)
    }
}
