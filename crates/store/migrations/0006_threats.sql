-- What agents did that looks like an attack, each with its band. Sealed with the vault's key, as agents are.
CREATE TABLE threats (
    instance_id TEXT PRIMARY KEY,
    record      TEXT NOT NULL,         -- JSON, one core::threat::ThreatRecord
    seal        BLOB NOT NULL
) STRICT;
