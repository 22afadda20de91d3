-- Which version is in use, where that is not the newest, and secrets that were removed and can be
-- restored. Both are covered by the commitment.
ALTER TABLE secrets ADD COLUMN current INTEGER;
ALTER TABLE secrets ADD COLUMN removed_at TEXT;
