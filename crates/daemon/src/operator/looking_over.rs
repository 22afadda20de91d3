//! Whether values can be had: each is fetched and dropped.

use keyless_core::{Error, SecretPath};

use super::Operator;
use crate::{broker::agent, looked_over::looked_over};

/// A value that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedOver {
    /// The source that it came from, where that is not the secret's own.
    pub instead: Option<String>,
}

impl Operator {
    /// Whether the value of each of these can be had now, in their order. Which were read is one entry of the log, with the
    /// name of the `call`; where that can't be written, nothing is told.
    pub async fn look_over(
        &self,
        paths: &[SecretPath],
        call: &'static str,
    ) -> Result<Vec<Result<LookedOver, Error>>, Error> {
        let (mut all, mut read) = (Vec::with_capacity(paths.len()), Vec::new());
        for path in paths {
            let reading = self.vault.open(path).await;
            if reading.is_ok() {
                read.push(path.clone());
            }
            all.push(reading.map(|reading| LookedOver { instead: reading.instead }));
        }
        if !read.is_empty() {
            let who = agent("operator", "operator");
            self.log.append(looked_over(who, read, call)).await?;
        }
        Ok(all)
    }
}
