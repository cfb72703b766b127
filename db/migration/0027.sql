-- When berth started an application by itself. Those of the last day are kept.
CREATE TABLE auto_start (
	app TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	at  INTEGER NOT NULL
) STRICT;
CREATE INDEX auto_start_app ON auto_start (app, at);

-- What happened to an application gets four more kinds, which are told in words.
CREATE TABLE event_next (
	app           TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	number        INTEGER NOT NULL CHECK (number > 0),
	at            INTEGER NOT NULL,
	kind          TEXT    NOT NULL CHECK (kind IN ('exit', 'deploy', 'deploy_failed', 'start_failed', 'memory_high',
		'starts_spent', 'not_listening', 'not_answering', 'disk_full')),
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
	heap_full     INTEGER,
	heap_mb       INTEGER,
	PRIMARY KEY (app, number),
	CHECK ((kind = 'exit') = (code IS NOT NULL)),
	CHECK ((kind IN ('exit', 'memory_high')) = (run IS NOT NULL)),
	CHECK ((kind = 'memory_high') = (level IS NOT NULL AND held_bytes IS NOT NULL AND limit_bytes IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO event_next (app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, deploy, by, text,
	level, held_bytes, limit_bytes, full_in_ms, squeezed, memory_signal, sent, heap_full, heap_mb)
	SELECT app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, deploy, by, text,
	level, held_bytes, limit_bytes, full_in_ms, squeezed, memory_signal, sent, heap_full, heap_mb FROM event;
DROP TABLE event;
ALTER TABLE event_next RENAME TO event;
