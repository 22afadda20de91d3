-- How the codes of the operator's authenticator app were judged until now, in the vault's words: the last that was
-- right, and what were wrong. Without a seal: whoever can write here could put an older copy of it in place as well.
CREATE TABLE code_gate (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    state TEXT NOT NULL
) STRICT;
