-- When a source beside the store was last asked for a value or given one, and how it was then. For people:
-- nothing is decided by it, so that it has no seal.
CREATE TABLE source_contacts (
    source  TEXT PRIMARY KEY,     -- its name in sources.toml
    at      TEXT NOT NULL,
    outcome TEXT NOT NULL         -- the word of its state, such as available or locked
) STRICT;
