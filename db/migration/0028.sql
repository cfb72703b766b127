-- Where an account is told what goes wrong.
CREATE TABLE channel (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	name       TEXT    NOT NULL,
	service    TEXT    NOT NULL,
	target     BLOB    NOT NULL, -- sealed
	recipient  TEXT    NOT NULL,
	secrets    BLOB    NOT NULL, -- sealed, a line each
	apps       TEXT    NOT NULL, -- a space between two
	kinds      TEXT    NOT NULL, -- a space between two
	least      INTEGER NOT NULL,
	lang       TEXT    NOT NULL,
	enabled    INTEGER NOT NULL CHECK (enabled IN (0, 1)),
	confirmed  INTEGER NOT NULL CHECK (confirmed IN (0, 1)),
	stopped    TEXT    NOT NULL,
	held_until INTEGER NOT NULL DEFAULT 0, -- the service asked for a pause
	created_at INTEGER NOT NULL,
	UNIQUE (account, name)
) STRICT;

-- What happened and is not told yet, stored with what happened.
CREATE TABLE notice (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	account INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	app     TEXT    NOT NULL, -- '' for what is not about one
	at      INTEGER NOT NULL,
	kind    TEXT    NOT NULL,
	happened TEXT   NOT NULL, -- JSON, '' for none
	args    TEXT    NOT NULL  -- JSON
) STRICT;
CREATE INDEX notice_account ON notice (account);

-- What an account was told of one topic of an application, so that nothing is told too often.
CREATE TABLE trouble (
	account INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	app     TEXT    NOT NULL,
	topic   TEXT    NOT NULL,
	since   INTEGER NOT NULL,
	told    INTEGER NOT NULL,
	level   INTEGER NOT NULL,
	held    INTEGER NOT NULL,
	lasts   INTEGER NOT NULL CHECK (lasts IN (0, 1)),
	last    TEXT    NOT NULL, -- JSON of the last notice
	PRIMARY KEY (account, app, topic)
) STRICT, WITHOUT ROWID;

-- Messages on their way, and those of before.
CREATE TABLE delivery (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	channel    INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
	message    TEXT    NOT NULL, -- JSON
	state      TEXT    NOT NULL CHECK (state IN ('waiting', 'sent', 'failed')),
	tries      INTEGER NOT NULL,
	next_at    INTEGER NOT NULL,
	status     INTEGER NOT NULL,
	why        TEXT    NOT NULL,
	updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX delivery_channel ON delivery (channel, state);
CREATE INDEX delivery_due ON delivery (next_at) WHERE state = 'waiting';

-- The last daemon: the kernel that it ran on, its version, and whether it ended as it should.
CREATE TABLE life (
	boot    TEXT    NOT NULL,
	version TEXT    NOT NULL,
	ended   INTEGER NOT NULL CHECK (ended IN (0, 1))
) STRICT;

-- What an account may do so often in a while: mails, tests.
CREATE TABLE notice_use (
	account INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	what    TEXT    NOT NULL,
	at      INTEGER NOT NULL
) STRICT;
CREATE INDEX notice_use_account ON notice_use (account, what, at);
