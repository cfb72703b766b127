-- The signal that a program asks for when its RAM is nearly full, '' for none.
ALTER TABLE app ADD COLUMN memory_signal TEXT NOT NULL DEFAULT '';
ALTER TABLE deploy ADD COLUMN memory_signal TEXT NOT NULL DEFAULT '';

-- What happened to an application gets another kind: memory_high, with the run and the
-- columns from level on, which are NULL of the others. sent says whether the program got
-- memory_signal, '' where none was due.
CREATE TABLE event_next (
	app           TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	number        INTEGER NOT NULL CHECK (number > 0),
	at            INTEGER NOT NULL,
	kind          TEXT    NOT NULL CHECK (kind IN ('exit', 'deploy', 'deploy_failed', 'start_failed', 'memory_high')),
	run           INTEGER,
	ran_ms        INTEGER,
	code          INTEGER,
	signal        INTEGER,
	oom           INTEGER CHECK (oom IN (0, 1)),
	peak_bytes    INTEGER,
	limit_mb      INTEGER,
	asked         INTEGER CHECK (asked IN (0, 1)),
	host_oom      INTEGER CHECK (host_oom IN (0, 1)),
	deploy        TEXT    NOT NULL,
	by            INTEGER NOT NULL,
	text          TEXT    NOT NULL,
	level         INTEGER CHECK (level BETWEEN 1 AND 100),
	held_bytes    INTEGER CHECK (held_bytes >= 0),
	limit_bytes   INTEGER CHECK (limit_bytes > 0),
	full_in_ms    INTEGER CHECK (full_in_ms >= 0),
	squeezed      INTEGER CHECK (squeezed >= 0),
	memory_signal TEXT    NOT NULL DEFAULT '',
	sent          INTEGER CHECK (sent IN (0, 1)),
	PRIMARY KEY (app, number),
	CHECK ((kind = 'exit') = (code IS NOT NULL)),
	CHECK ((kind IN ('exit', 'memory_high')) = (run IS NOT NULL)),
	CHECK ((kind = 'memory_high') = (level IS NOT NULL AND held_bytes IS NOT NULL AND limit_bytes IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO event_next (app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, deploy, by, text)
	SELECT app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, deploy, by, text FROM event;
DROP TABLE event;
ALTER TABLE event_next RENAME TO event;
