-- When the owner of a session last proved who they are, and from which address or network.
-- Those from before have to prove it before they open anything.
ALTER TABLE session ADD COLUMN proved_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN proved_from TEXT NOT NULL DEFAULT '';

-- What an account's app makes its codes from. step is the last whose code was used; a code
-- counts once. confirmed is 0 until the account has typed a first code.
CREATE TABLE totp (
	account   INTEGER PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
	seed      BLOB    NOT NULL,
	step      INTEGER NOT NULL,
	confirmed INTEGER NOT NULL CHECK (confirmed IN (0, 1))
) STRICT;

-- Recovery codes that are left, by their hash.
CREATE TABLE recovery_code (
	account INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	hash    BLOB    NOT NULL CHECK (length(hash) = 32),
	PRIMARY KEY (account, hash)
) STRICT, WITHOUT ROWID;

-- What an administrator demands of everybody: a rule holds while it is here.
CREATE TABLE rule (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
