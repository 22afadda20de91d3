-- Counts the changes of the vault's rows, by whatever program, so that who keeps them in memory sees those of others and
-- need not read them again because the log has grown.
CREATE TABLE vault_revision (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    revision    INTEGER NOT NULL
) STRICT;
INSERT INTO vault_revision (id, revision) VALUES (1, 0);

CREATE TRIGGER vault_added AFTER INSERT ON vault BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER vault_changed AFTER UPDATE ON vault BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER vault_removed AFTER DELETE ON vault BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER envelopes_added AFTER INSERT ON envelopes BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER envelopes_changed AFTER UPDATE ON envelopes BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER envelopes_removed AFTER DELETE ON envelopes BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER secrets_added AFTER INSERT ON secrets BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER secrets_changed AFTER UPDATE ON secrets BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER secrets_removed AFTER DELETE ON secrets BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER versions_added AFTER INSERT ON versions BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER versions_changed AFTER UPDATE ON versions BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER versions_removed AFTER DELETE ON versions BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER commitment_added AFTER INSERT ON commitment BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER commitment_changed AFTER UPDATE ON commitment BEGIN UPDATE vault_revision SET revision = revision + 1; END;
CREATE TRIGGER commitment_removed AFTER DELETE ON commitment BEGIN UPDATE vault_revision SET revision = revision + 1; END;
