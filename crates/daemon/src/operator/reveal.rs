//! The one way in which a value comes before a person's eyes.

use keyless_core::{
    Error, SecretPath, allow_operators_eyes,
    audit::{Action, Target},
};

use super::Operator;
use crate::permits::{PermitLife, permit, uptime};

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
        let permit = permit(&self.log, draft, PermitLife::AtOnce).await?;
        Ok(look(value.open_with_permit(&permit, uptime())?))
    }
}
