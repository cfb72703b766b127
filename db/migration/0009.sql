-- Who may look after the host in the panel.
ALTER TABLE account ADD COLUMN admin INTEGER NOT NULL DEFAULT 0 CHECK (admin IN (0, 1));

-- When a token stops to be one, 0 for never.
ALTER TABLE token ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;

-- What proves a password, as account.HashPassword writes it. Who has no row
-- cannot sign in to the panel.
CREATE TABLE password (
	account    INTEGER PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
	hash       TEXT    NOT NULL CHECK (hash <> ''),
	changed_at INTEGER NOT NULL
) STRICT;

-- Browsers that are signed in, by the hash of what their cookie holds.
CREATE TABLE session (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
	created_at INTEGER NOT NULL,
	seen_at    INTEGER NOT NULL,
	agent      TEXT    NOT NULL,
	address    TEXT    NOT NULL
) STRICT;
CREATE INDEX session_account ON session (account);
CREATE INDEX session_seen ON session (seen_at);

-- One-time links to a new password, by the hash of what they hold. account is
-- NULL while there is none: then the link makes the first.
CREATE TABLE invitation (
	hash       BLOB    PRIMARY KEY NOT NULL CHECK (length(hash) = 32),
	account    INTEGER REFERENCES account (id) ON DELETE CASCADE,
	expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX invitation_account ON invitation (account);
