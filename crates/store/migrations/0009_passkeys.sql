-- The operator's passkeys: public keys, which prove who is at the page and open nothing. Rows are sealed with
-- the vault's key, as requests are: who can write this file can take a passkey away and not make one.
CREATE TABLE passkeys (
    id         TEXT PRIMARY KEY,       -- the credential's, base64url
    name       TEXT NOT NULL,          -- the operator's word for it
    public_key BLOB NOT NULL,          -- SubjectPublicKeyInfo, DER
    algorithm  INTEGER NOT NULL,       -- COSE's number
    counter    INTEGER NOT NULL,       -- uses, as the authenticator counts them
    created_at TEXT NOT NULL,
    used_at    TEXT,
    seal       BLOB NOT NULL
) STRICT;
