-- Counts the changes of the vault's rows, by whatever program, so that who keeps them in memory sees those of others.
CREATE TABLE vault_revision (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    revision    INTEGER NOT NULL
) STRICT;
INSERT INTO vault_revision (id, revision) VALUES (1, 0);

-- Before the rows, as for agents.
CREATE FUNCTION count_vault_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE vault_revision SET revision = revision + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON vault
    FOR EACH STATEMENT EXECUTE FUNCTION count_vault_change();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON envelopes
    FOR EACH STATEMENT EXECUTE FUNCTION count_vault_change();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON secrets
    FOR EACH STATEMENT EXECUTE FUNCTION count_vault_change();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON versions
    FOR EACH STATEMENT EXECUTE FUNCTION count_vault_change();
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON commitment
    FOR EACH STATEMENT EXECUTE FUNCTION count_vault_change();
