-- The vault: sealed values and what stands about them in the clear. Every row here is covered by
-- the commitment, which only the vault's key can make.
CREATE TABLE vault (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    format     INTEGER NOT NULL,
    created_at TEXT    NOT NULL
) STRICT;

CREATE TABLE envelopes (
    kind       TEXT PRIMARY KEY,
    parameters TEXT NOT NULL,          -- JSON: salt and cost
    nonce      BLOB NOT NULL,
    wrapped    BLOB NOT NULL,          -- the vault key
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE secrets (
    path       TEXT PRIMARY KEY,
    format     INTEGER NOT NULL,       -- of the metadata
    metadata   TEXT    NOT NULL,       -- JSON
    created_at TEXT    NOT NULL,
    updated_at TEXT    NOT NULL
) STRICT;

CREATE TABLE versions (
    path       TEXT    NOT NULL REFERENCES secrets (path) ON DELETE CASCADE,
    version    INTEGER NOT NULL CHECK (version > 0),
    nonce      BLOB    NOT NULL,
    ciphertext BLOB    NOT NULL,
    created_at TEXT    NOT NULL,
    PRIMARY KEY (path, version)
) STRICT;

CREATE TABLE commitment (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,
    mac        BLOB    NOT NULL
) STRICT;

-- The audit log. What is searched by is computed from the entry itself, so it can't be changed
-- without the entry's hash telling. No index on it: one would read the JSON again at every append,
-- which is on the path of every request, while searches are rare.
CREATE TABLE audit (
    sequence  INTEGER PRIMARY KEY,
    entry     TEXT NOT NULL,           -- JSON, one core::audit::Entry
    timestamp TEXT GENERATED ALWAYS AS (json_extract(entry, '$.timestamp')) VIRTUAL,
    action    TEXT GENERATED ALWAYS AS (json_extract(entry, '$.action')) VIRTUAL,
    result    TEXT GENERATED ALWAYS AS (json_extract(entry, '$.result')) VIRTUAL,
    session   TEXT GENERATED ALWAYS AS (json_extract(entry, '$.agent.session_id')) VIRTUAL
) STRICT;

-- Where the log ends, so that a cut tail shows; and how far the vault's key has vouched for it.
CREATE TABLE audit_head (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    last            TEXT,              -- the last entry once more, NULL when there is none
    sealed_sequence INTEGER,
    sealed_hash     TEXT,
    seal            BLOB
) STRICT;

INSERT INTO audit_head (id) VALUES (1);
