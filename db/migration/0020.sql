-- What invitations bring that somebody accepts by a link, by the hash of what the link holds.
-- inviter is NULL for the owner of the host. An offer with RAM makes an account; one without is
-- for an account that exists.
CREATE TABLE offer (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
	inviter    INTEGER REFERENCES account (id) ON DELETE CASCADE,
	proposed   TEXT    NOT NULL,
	ram        INTEGER NOT NULL CHECK (ram >= 0),
	disk       INTEGER NOT NULL CHECK (disk >= 0),
	apps       INTEGER NOT NULL CHECK (apps >= 0),
	expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX offer_inviter ON offer (inviter);

-- The rows of an application go with it: who takes its id later is another.
CREATE TABLE offer_app (
	offer       INTEGER NOT NULL REFERENCES offer (id) ON DELETE CASCADE,
	app         TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	permissions INTEGER NOT NULL CHECK (permissions BETWEEN 1 AND 255),
	PRIMARY KEY (offer, app)
) STRICT, WITHOUT ROWID;
CREATE INDEX offer_app_app ON offer_app (app);
