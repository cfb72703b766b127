-- What happened to an application, the last of it: its page shows these. kind
-- exit has the columns of exit_record, deploy and deploy_failed those of deploy;
-- the others are NULL. by is no reference: who is gone has done it all the same.
CREATE TABLE event (
	app        TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	number     INTEGER NOT NULL CHECK (number > 0),
	at         INTEGER NOT NULL,
	kind       TEXT    NOT NULL CHECK (kind IN ('exit', 'deploy', 'deploy_failed', 'start_failed')),
	run        INTEGER,
	ran_ms     INTEGER,
	code       INTEGER,
	signal     INTEGER,
	oom        INTEGER CHECK (oom IN (0, 1)),
	peak_bytes INTEGER,
	limit_mb   INTEGER,
	asked      INTEGER CHECK (asked IN (0, 1)),
	deploy     TEXT    NOT NULL,
	by         INTEGER NOT NULL,
	text       TEXT    NOT NULL,
	PRIMARY KEY (app, number),
	CHECK ((kind = 'exit') = (run IS NOT NULL AND code IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO event (app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, deploy, by, text)
	SELECT app, row_number() OVER (PARTITION BY app ORDER BY at, kind), at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, deploy, by, text
	FROM (
		SELECT app, ended_at AS at, 'exit' AS kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, '' AS deploy, 0 AS by, '' AS text FROM exit_record
		UNION ALL
		SELECT app, at, 'deploy', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, kind, by, note FROM deploy
	);
