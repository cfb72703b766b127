-- How providers of sign-ins know an account. issuer and subject together name one person for ever.
CREATE TABLE identity (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	issuer     TEXT    NOT NULL CHECK (issuer <> ''),
	subject    TEXT    NOT NULL CHECK (subject <> ''),
	name       TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL,
	UNIQUE (issuer, subject)
) STRICT;
CREATE INDEX identity_account ON identity (account);
