-- Sign-ins in browsers that were not known, which an account sees until it dismisses them. A
-- row outlives its session, and the account's first sign-in is dismissed when it is made.
CREATE TABLE new_sign_in (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	account   INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	session   INTEGER NOT NULL,
	at        INTEGER NOT NULL,
	agent     TEXT    NOT NULL,
	address   TEXT    NOT NULL,
	dismissed INTEGER NOT NULL CHECK (dismissed IN (0, 1))
) STRICT;
CREATE INDEX new_sign_in_account ON new_sign_in (account);
