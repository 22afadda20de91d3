//! The one way in which a value comes before a person's eyes.

use std::time::Duration;

use jiff::Timestamp;
use keyless_core::{
    Code, Error, Permit, SecretPath, allow_operators_eyes,
    audit::{Action, Target},
};

use super::Operator;

/// From the entry in the log to the look; nothing waits in between.
const PERMIT_LIFE: Duration = Duration::from_secs(5);

impl Operator {
    /// Hands the value of `path` to `look`, once that is on record. `place` says where it is seen, for the log.
    ///
    /// Fails as opening does; then nothing was seen.
    pub async fn reveal<T>(
        &self,
        path: &SecretPath,
        place: &'static str,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        let value = self.vault.open(path).await?.value;
        let target = Target::Secrets(vec![path.clone()]);
        let mut draft = Self::draft(Action::Reveal, target, place);
        draft.secrets_used = vec![path.clone()];
        draft.allowed = Some(allow_operators_eyes(path));
        let recorded = self.log.append(draft).await?;
        let until = Timestamp::now() + PERMIT_LIFE;
        let permit = Permit::from_recorded(recorded, until).ok_or(Code::Internal)?;
        Ok(look(value.open_with_permit(&permit, Timestamp::now())?))
    }
}
