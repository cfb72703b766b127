-- What berth had of certificate authorities by ACME; ca is the address of their
-- directory. Nothing here refers to an application or a domain: which names are
-- wanted is asked elsewhere, and one that is gone still counts for the limits.
CREATE TABLE acme_account (
	ca  TEXT PRIMARY KEY NOT NULL,
	key BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE certificate (
	ca       TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	chain    BLOB    NOT NULL, -- empty before there is one
	key      BLOB    NOT NULL,
	begins   INTEGER NOT NULL,
	expires  INTEGER NOT NULL,
	ordered  INTEGER NOT NULL,
	next     INTEGER NOT NULL,
	failures INTEGER NOT NULL CHECK (failures >= 0),
	problem  TEXT    NOT NULL,
	PRIMARY KEY (ca, name)
) STRICT, WITHOUT ROWID;
