-- The computed columns go: SQLite worked them all out at every append, since the table is STRICT,
-- and so read each entry's JSON four times on the path of every request. Questions are rare; they
-- read the JSON themselves.
CREATE TABLE audit_rows (
    sequence  INTEGER PRIMARY KEY,
    entry     TEXT NOT NULL            -- JSON in RFC 8785 form, one core::audit::Entry
) STRICT;

INSERT INTO audit_rows (sequence, entry) SELECT sequence, entry FROM audit;
DROP TABLE audit;
ALTER TABLE audit_rows RENAME TO audit;
