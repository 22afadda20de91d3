-- Closed parts of the log, whose entries are in files. Sealed with the vault's key, so that none can be made up to hide a
-- log that was cut at its beginning.
CREATE TABLE audit_segments (
    chain         TEXT    NOT NULL,
    last_sequence INTEGER NOT NULL,
    record        TEXT    NOT NULL,    -- JSON, one core::audit::Segment
    seal          BLOB    NOT NULL,
    PRIMARY KEY (chain, last_sequence)
) STRICT;
