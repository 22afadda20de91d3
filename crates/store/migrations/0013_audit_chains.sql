-- A server keeps the chain of each broker; a file has one, without a name.
ALTER TABLE audit ADD COLUMN chain TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_head ADD COLUMN chain TEXT NOT NULL DEFAULT '';
