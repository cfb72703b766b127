-- What owners put into the environment of their programs: secrets mostly, and
-- in plain, for a program gets them so. Never a part of the code or of a backup.
CREATE TABLE env (
	app   TEXT NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	name  TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND instr(name, '=') = 0),
	value TEXT NOT NULL,
	PRIMARY KEY (app, name)
) STRICT;

-- The system packages that an application asks for, separated by commas.
ALTER TABLE app ADD COLUMN apts TEXT NOT NULL DEFAULT '';
