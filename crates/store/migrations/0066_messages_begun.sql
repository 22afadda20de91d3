-- Messages of agents that were begun, each done once by whichever broker of this store, also after it was started anew.
CREATE TABLE messages_begun (
    name        TEXT    PRIMARY KEY,   -- SHA-256 of the message's id
    instance_id TEXT    NOT NULL,
    digest      TEXT    NOT NULL,      -- SHA-256 of what it says
    broker      TEXT    NOT NULL,      -- the run of a broker that began it, and knows of it in memory
    turn        TEXT    NOT NULL,      -- which try of that run
    until       INTEGER NOT NULL       -- Unix seconds; from then on the id is free
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_begun_until ON messages_begun (until);
CREATE INDEX messages_begun_turn ON messages_begun (turn);
