-- The successful deployments of an application, newest ones only. journal names
-- what takes one back, '' when nothing does: what is named here is good, and a
-- boot undoes a commit whose journal is not. by is no reference: who is gone
-- has deployed all the same.
CREATE TABLE deploy (
	app           TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	number        INTEGER NOT NULL CHECK (number > 0),
	at            INTEGER NOT NULL,
	by            INTEGER NOT NULL,
	kind          TEXT    NOT NULL CHECK (kind IN ('upload', 'commit', 'restore', 'rollback')),
	bytes         INTEGER NOT NULL CHECK (bytes >= 0),
	main          TEXT    NOT NULL,
	lang          TEXT    NOT NULL,
	version       TEXT    NOT NULL,
	start_command TEXT    NOT NULL,
	build_command TEXT    NOT NULL,
	packages      TEXT    NOT NULL,
	auto_restart  INTEGER NOT NULL CHECK (auto_restart IN (0, 1)),
	note          TEXT    NOT NULL,
	journal       TEXT    NOT NULL,
	kept          INTEGER NOT NULL CHECK (kept >= 0),
	PRIMARY KEY (app, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX deploy_journal ON deploy (journal) WHERE journal <> '';
INSERT INTO deploy (app, number, at, by, kind, bytes, main, lang, version, start_command, build_command,
		packages, auto_restart, note, journal, kept)
	SELECT app.id, 1, app.created_at, place.account, 'upload', 0, main, lang, version, start_command, build_command,
		packages, auto_restart, 'the code from before there was a history', '', 0
	FROM app JOIN place USING (id);
