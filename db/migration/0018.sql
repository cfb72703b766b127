-- Secrets may be sealed: their columns hold bytes (see db/seal.go). seal_key is the id of the
-- key that they are sealed with, '' before there is one. scrubbed is 0 while the pages of
-- the file may still hold secrets that were there in plain.
CREATE TABLE env_sealed (
	app   TEXT NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	name  TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND instr(name, '=') = 0),
	value BLOB NOT NULL,
	PRIMARY KEY (app, name)
) STRICT;
INSERT INTO env_sealed (app, name, value) SELECT app, name, CAST(value AS BLOB) FROM env;
DROP TABLE env;
ALTER TABLE env_sealed RENAME TO env;

ALTER TABLE meta ADD COLUMN links BLOB; -- the key of links, in the place of link_key
UPDATE meta SET links = link_key, link_key = NULL;
ALTER TABLE meta ADD COLUMN seal_key TEXT NOT NULL DEFAULT '';
ALTER TABLE meta ADD COLUMN seal_shown INTEGER NOT NULL DEFAULT 0; -- when the key was shown to somebody
ALTER TABLE meta ADD COLUMN scrubbed INTEGER NOT NULL DEFAULT 0 CHECK (scrubbed IN (0, 1));
