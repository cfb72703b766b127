-- Times are unix milliseconds, 0 when there is none. Memory is in MB unless the
-- column says otherwise.

-- One row of facts about this installation.
CREATE TABLE meta (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	next_uid INTEGER NOT NULL,
	link_key BLOB CHECK (length(link_key) = 32)
) STRICT;
INSERT INTO meta (one, next_uid) VALUES (1, 0);

-- AUTOINCREMENT: the number of a deleted account or token never names another.
CREATE TABLE account (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	name       TEXT    NOT NULL UNIQUE,
	total_ram  INTEGER NOT NULL CHECK (total_ram > 0),
	plan       TEXT    NOT NULL,
	locale     TEXT    NOT NULL,
	disabled   INTEGER NOT NULL CHECK (disabled IN (0, 1)),
	created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE token (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
	label      TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL
) STRICT;
CREATE INDEX token_account ON token (account);

-- What an application takes that nobody else can have. A place without an app
-- is a reservation: a deployment under way, or one that a crash cut short.
CREATE TABLE place (
	id      TEXT    PRIMARY KEY NOT NULL,
	account INTEGER NOT NULL REFERENCES account (id),
	ram     INTEGER NOT NULL CHECK (ram > 0),
	uid     INTEGER NOT NULL UNIQUE CHECK (uid > 0),
	port    INTEGER NOT NULL UNIQUE CHECK (port BETWEEN 1 AND 65535)
) STRICT;
CREATE INDEX place_account ON place (account);

CREATE TABLE app (
	id            TEXT    PRIMARY KEY NOT NULL REFERENCES place (id) ON DELETE CASCADE,
	name          TEXT    NOT NULL,
	avatar_url    TEXT    NOT NULL,
	type          INTEGER NOT NULL CHECK (type IN (0, 1)),
	wanted        TEXT    NOT NULL CHECK (wanted IN ('online', 'stopped')),
	created_at    INTEGER NOT NULL,
	main          TEXT    NOT NULL,
	lang          TEXT    NOT NULL,
	version       TEXT    NOT NULL,
	start_command TEXT    NOT NULL,
	build_command TEXT    NOT NULL,
	auto_restart  INTEGER NOT NULL CHECK (auto_restart IN (0, 1)),
	last_run      INTEGER NOT NULL,
	started_at    INTEGER NOT NULL,
	last_exit     INTEGER -- the run whose exit is shown; NULL when none is
) STRICT;

CREATE TABLE exit_record (
	app        TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	run        INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL,
	ran_ms     INTEGER NOT NULL,
	code       INTEGER NOT NULL,
	signal     INTEGER NOT NULL,
	oom        INTEGER NOT NULL CHECK (oom IN (0, 1)),
	peak_bytes INTEGER NOT NULL,
	limit_mb   INTEGER NOT NULL,
	asked      INTEGER NOT NULL CHECK (asked IN (0, 1)),
	PRIMARY KEY (app, run)
) STRICT, WITHOUT ROWID;
