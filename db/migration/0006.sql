-- Who asked for what: the audit log. It names accounts, tokens and applications
-- by what they were called then, and refers to none: it outlives them.
CREATE TABLE audit (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	at        INTEGER NOT NULL,
	actor     INTEGER NOT NULL, -- an account; 0 the owner of the host, -1 a stranger
	name      TEXT    NOT NULL,
	token     INTEGER NOT NULL,
	label     TEXT    NOT NULL,
	account   INTEGER NOT NULL, -- whose application or account was meant, 0 when unknown
	address   TEXT    NOT NULL,
	operation TEXT    NOT NULL CHECK (operation <> ''),
	app       TEXT    NOT NULL,
	app_name  TEXT    NOT NULL,
	detail    TEXT    NOT NULL,
	status    INTEGER NOT NULL,
	refusal   TEXT    NOT NULL,
	request   TEXT    NOT NULL,
	times     INTEGER NOT NULL CHECK (times > 0),
	counted   INTEGER NOT NULL CHECK (counted IN (0, 1))
) STRICT;
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor);
-- Acts that are counted have one row for each minute.
CREATE UNIQUE INDEX audit_counted ON audit (at, actor, token, address, operation, app, status) WHERE counted = 1;
