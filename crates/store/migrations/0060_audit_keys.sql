-- The keys that vouch for entries one by one: which there are, not the keys themselves, which come from the vault's. Each
-- row is sealed with the vault's key.
CREATE TABLE audit_keys (
    number      INTEGER PRIMARY KEY,
    record      TEXT    NOT NULL,      -- JSON: key_id, created_at
    seal        BLOB    NOT NULL
) STRICT;

-- The newest key that has vouched for an entry of the chain: an older one is not taken again.
ALTER TABLE audit_head ADD COLUMN key_number INTEGER NOT NULL DEFAULT 0;
