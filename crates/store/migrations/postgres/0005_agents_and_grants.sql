-- Who agents are, what they may do, and what they have handed on. Rows are sealed with the vault's key, as
-- requests are: who can write this file can take a permission away and not make one.
CREATE TABLE agents (
    instance_id TEXT PRIMARY KEY,
    aid         TEXT NOT NULL,         -- JSON, one core::agent::Aid
    credential  TEXT NOT NULL,         -- its slow hash, in PHC form
    seal        BLOB NOT NULL
) STRICT;

CREATE TABLE grants (
    grant_id    TEXT PRIMARY KEY,
    body        TEXT NOT NULL,         -- JSON, one core::grant::Grant
    revoked     INTEGER NOT NULL,      -- as the body says, for the statement that takes a use
    seal        BLOB NOT NULL
) STRICT;

-- Uses that were had, of permissions that have a limit.
CREATE TABLE grant_uses (
    grant_id    TEXT NOT NULL,
    permission  INTEGER NOT NULL,
    used        INTEGER NOT NULL,
    PRIMARY KEY (grant_id, permission)
) STRICT, WITHOUT ROWID;

CREATE TABLE delegations (
    token_id    TEXT PRIMARY KEY,
    body        TEXT NOT NULL,         -- JSON, one core::delegation::Token
    max_uses    INTEGER NOT NULL,
    used        INTEGER NOT NULL,
    revoked     INTEGER NOT NULL,      -- as the body says, for the statement that takes a use
    seal        BLOB NOT NULL
) STRICT;

-- Counts the changes of all three, so that a broker that keeps them in memory sees those of other processes.
CREATE TABLE nl_revision (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    revision    INTEGER NOT NULL
) STRICT;
INSERT INTO nl_revision (id, revision) VALUES (1, 0);

-- Before the rows: whoever changes one of these tables first takes the row that counts, so that no two wait for each other.
CREATE FUNCTION count_nl_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nl_revision SET revision = revision + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON agents
    FOR EACH STATEMENT EXECUTE FUNCTION count_nl_change();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON grants
    FOR EACH STATEMENT EXECUTE FUNCTION count_nl_change();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OF body OR DELETE ON delegations
    FOR EACH STATEMENT EXECUTE FUNCTION count_nl_change();
