-- What agents ask of a person, and the answers. Each row is sealed with the vault's key, so that who
-- can write this file can neither answer nor change a question; the vault's commitment does not
-- cover them, since they come and go at every request.
CREATE TABLE requests (
    id         TEXT PRIMARY KEY,       -- prov-<12 hex>
    path       TEXT NOT NULL,
    session    TEXT NOT NULL,          -- who asks
    asked      TEXT NOT NULL,          -- JSON: the kind, and what belongs to it
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    settled    TEXT,                   -- JSON: the answer
    seal       BLOB NOT NULL
) STRICT;
