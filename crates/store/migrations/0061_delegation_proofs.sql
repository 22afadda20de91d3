-- Proofs that a delegation token is its presenter's, each good for one message at whichever broker of this store.
CREATE TABLE delegation_proofs (
    proof       TEXT    PRIMARY KEY,
    until       INTEGER NOT NULL       -- Unix seconds; from then on it is too old to be shown
) STRICT, WITHOUT ROWID;
