-- What was done for the backup of the host: backups, rehearsals, removals of old ones.
CREATE TABLE backup_run (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	kind    TEXT    NOT NULL CHECK (kind IN ('backup', 'rehearsal', 'prune')),
	place   TEXT    NOT NULL, -- the repository, without passwords
	run     TEXT    NOT NULL, -- the name of the backup, '' for none
	began   INTEGER NOT NULL,
	ended   INTEGER NOT NULL, -- 0 while it is under way
	apps    INTEGER NOT NULL,
	reused  INTEGER NOT NULL,
	bytes   INTEGER NOT NULL,
	stored  INTEGER NOT NULL,
	missing TEXT    NOT NULL, -- ids of applications, a space between two
	error   TEXT    NOT NULL
) STRICT;
CREATE INDEX backup_run_kind ON backup_run (kind, ended);

-- Copies of applications in the repository of backups, for their owners: what had the id then.
CREATE TABLE snapshot (
	app     TEXT    NOT NULL,
	uid     INTEGER NOT NULL,
	account INTEGER NOT NULL,
	run     TEXT    NOT NULL,
	bytes   INTEGER NOT NULL,
	PRIMARY KEY (app, run)
) STRICT, WITHOUT ROWID;

-- Why this host starts no program: it was restored, or its programs are on another host.
CREATE TABLE hold (
	why  TEXT    NOT NULL CHECK (why IN ('restored', 'moved')),
	peer TEXT    NOT NULL, -- the other host
	at   INTEGER NOT NULL
) STRICT;

-- Facts about the backup of the host: since when there is something to back up, and whether its key was shown.
CREATE TABLE backup_state (
	since     INTEGER NOT NULL,
	key_shown INTEGER NOT NULL CHECK (key_shown IN (0, 1))
) STRICT;
