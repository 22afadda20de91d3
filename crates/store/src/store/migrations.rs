//! The steps from an empty database to this version's tables.

/// One step, in the words of both databases.
pub(super) struct Migration {
    pub(super) sqlite: &'static str,
    /// Where the words of SQLite, with PostgreSQL's types in them, won't do.
    postgres: Option<&'static str>,
}

/// In order; a database counts those that it has. New ones go to the end.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        sqlite: include_str!("../../migrations/0001_vault_and_audit.sql"),
        postgres: Some(include_str!("../../migrations/postgres/0001_vault_and_audit.sql")),
    },
    Migration {
        sqlite: include_str!("../../migrations/0002_plain_audit_rows.sql"),
        postgres: Some("-- there were never others"),
    },
    Migration::of_both(include_str!("../../migrations/0003_requests.sql")),
    Migration::of_both(include_str!("../../migrations/0004_versions_kept.sql")),
    Migration {
        sqlite: include_str!("../../migrations/0005_agents_and_grants.sql"),
        postgres: Some(include_str!("../../migrations/postgres/0005_agents_and_grants.sql")),
    },
    Migration::of_both(include_str!("../../migrations/0009_passkeys.sql")),
    Migration {
        sqlite: include_str!("../../migrations/0013_audit_chains.sql"),
        postgres: Some("-- they were there from the first"),
    },
    Migration::of_both(include_str!("../../migrations/0006_threats.sql")),
    Migration::of_both(include_str!("../../migrations/0040_source_contacts.sql")),
    Migration::of_both(include_str!("../../migrations/0050_audit_segments.sql")),
    Migration::of_both(include_str!("../../migrations/0060_audit_keys.sql")),
    Migration::of_both(include_str!("../../migrations/0061_delegation_proofs.sql")),
    Migration {
        sqlite: include_str!("../../migrations/0062_vault_revision.sql"),
        postgres: Some(include_str!("../../migrations/postgres/0062_vault_revision.sql")),
    },
    Migration::of_both(include_str!("../../migrations/0063_full_request_ids.sql")),
    Migration::of_both(include_str!("../../migrations/0064_code_gate.sql")),
    Migration::of_both(include_str!("../../migrations/0065_attestations_seen.sql")),
    Migration::of_both(include_str!("../../migrations/0066_messages_begun.sql")),
    Migration::of_both(include_str!("../../migrations/0067_messages_begun_lean.sql")),
    Migration::of_both(include_str!("../../migrations/0068_agreed.sql")),
];

#[expect(clippy::cast_possible_wrap, reason = "a handful")]
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// What a type of SQLite is called by PostgreSQL. Texts are compared byte by byte, as SQLite does and our sort orders do.
const TYPES: [(&str, &str); 5] = [
    (" INTEGER", " BIGINT"),
    (" BLOB", " BYTEA"),
    (" TEXT", " TEXT COLLATE \"C\""),
    (") STRICT, WITHOUT ROWID;", ");"),
    (") STRICT;", ");"),
];

impl Migration {
    const fn of_both(sqlite: &'static str) -> Self {
        Self { sqlite, postgres: None }
    }

    /// The step in PostgreSQL's words.
    pub(super) fn postgres(&self) -> String {
        let words = self.postgres.unwrap_or(self.sqlite).to_owned();
        TYPES.iter().fold(words, |words, (sqlite, postgres)| words.replace(sqlite, postgres))
    }
}
