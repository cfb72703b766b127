-- Tokens of the owner of the host, by which a program keeps accounts, such as a billing
-- panel. They belong to no account.
CREATE TABLE host_token (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
	label      TEXT    NOT NULL,
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL
) STRICT;

-- What such a program calls an account; '' for an account that it did not make.
ALTER TABLE account ADD COLUMN external_id TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX account_external ON account (external_id) WHERE external_id <> '';
