-- What the operator has agreed to of how long the store stays open, in the vault's words, by home; the commitment covers it.
ALTER TABLE vault ADD COLUMN agreed TEXT;
