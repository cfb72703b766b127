-- Passkeys. credential is the id that its authenticator gave it, record what the library
-- remembers of it, with its public key; count is what the authenticator has counted, 0 where
-- it does not. rp is the domain that it was made for, and works at.
CREATE TABLE passkey (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	credential BLOB    NOT NULL UNIQUE,
	record     BLOB    NOT NULL,
	count      INTEGER NOT NULL CHECK (count >= 0),
	name       TEXT    NOT NULL CHECK (name <> ''),
	rp         TEXT    NOT NULL CHECK (rp <> ''),
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL
) STRICT;
CREATE INDEX passkey_account ON passkey (account);

-- By what authenticators know an account: random, and not its number.
CREATE TABLE passkey_user (
	account INTEGER PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
	handle  BLOB    NOT NULL UNIQUE CHECK (length(handle) = 64)
) STRICT;
