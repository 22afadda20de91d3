-- What a request is beyond its name, 32 hex digits of which the name shows the first 12; NULL in rows from before.
ALTER TABLE requests ADD COLUMN full_id TEXT;
