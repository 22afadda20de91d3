//! Messages that were begun, so that none is done twice, whatever became of the broker meanwhile.

use jiff::Timestamp;

use crate::{
    engine::query,
    store::{Store, StoreError},
};

/// A message that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunMessage {
    /// What it is known by, whoever sends it.
    pub name: String,
    /// The agent's instance.
    pub instance: String,
    /// The hash of what it says.
    pub digest: String,
    /// The broker's run, which knows what it began itself and takes its own names again.
    pub broker: String,
    /// This try.
    pub turn: String,
}

/// Whether a message may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It is the first of its name, and on disk.
    First,
    /// The name is another message's.
    Other,
    /// Another run has begun the very same.
    Same,
}

impl Store {
    /// Records a message before it is done, as one that counts until then.
    pub async fn begin_message(
        &self,
        message: &BegunMessage,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Beginning, StoreError> {
        let insert = query(
            "INSERT INTO messages_begun (name, instance_id, digest, broker, turn, until) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET \
             instance_id = excluded.instance_id, digest = excluded.digest, turn = excluded.turn, \
             broker = excluded.broker, until = excluded.until \
             WHERE messages_begun.broker = excluded.broker OR messages_begun.until < $7",
        );
        let insert = insert.bind(&message.name).bind(&message.instance).bind(&message.digest);
        let insert = insert.bind(&message.broker).bind(&message.turn).bind(until.as_second());
        let insert = insert.bind(now.as_second());
        if insert.execute(&self.pool).await? == 1 {
            return Ok(Beginning::First);
        }
        let select = query(
            "SELECT name FROM messages_begun \
             WHERE name = $1 AND instance_id = $2 AND digest = $3",
        );
        let select = select.bind(&message.name).bind(&message.instance).bind(&message.digest);
        let same = select.fetch_optional(&self.pool).await?;
        Ok(same.map_or(Beginning::Other, |_| Beginning::Same))
    }

    /// Forgets the messages that count no longer.
    pub async fn forget_old_messages(&self, now: Timestamp) -> Result<(), StoreError> {
        let delete = query("DELETE FROM messages_begun WHERE until < $1").bind(now.as_second());
        delete.execute(&self.pool).await?;
        Ok(())
    }

    /// Forgets a try that came to nothing, unless another one has followed it.
    pub async fn forget_message(&self, name: &str, turn: &str) -> Result<(), StoreError> {
        let delete = query("DELETE FROM messages_begun WHERE name = $1 AND turn = $2");
        delete.bind(name).bind(turn).execute(&self.pool).await?;
        Ok(())
    }
}
