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

-- Where the log of each broker ends, so that a cut tail shows; and how far the vault's key has vouched for it.
CREATE TABLE audit_head (
    chain           TEXT PRIMARY KEY,  -- its name
    last            TEXT,              -- the last entry once more, NULL when there is none
    sealed_sequence INTEGER,
    sealed_hash     TEXT,
    seal            BLOB
) STRICT;

-- The audit log: a chain of entries for each broker.
CREATE TABLE audit (
    chain     TEXT    NOT NULL REFERENCES audit_head (chain),
    sequence  INTEGER NOT NULL,
    entry     TEXT    NOT NULL,        -- JSON in RFC 8785 form, one core::audit::Entry
    PRIMARY KEY (chain, sequence)
) STRICT;
