-- Whose an attestation is: the agent's that showed its name first, at whichever broker of this store.
CREATE TABLE attestations_seen (
    name        TEXT    PRIMARY KEY,   -- SHA-256 of the issuer and the token's own name
    instance_id TEXT    NOT NULL,
    digest      TEXT    NOT NULL,      -- SHA-256 of the token
    until       INTEGER NOT NULL       -- Unix seconds; from then on it is too old to be shown
) STRICT, WITHOUT ROWID;
