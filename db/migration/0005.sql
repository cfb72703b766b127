-- A name below the host's own domain. place is the site that brought it, and
-- takes it along when it goes; NULL when its owner reserved it.
CREATE TABLE subdomain (
	id         TEXT    PRIMARY KEY NOT NULL,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	place      TEXT    UNIQUE REFERENCES place (id) ON DELETE CASCADE CHECK (place = id),
	created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX subdomain_account ON subdomain (account);
INSERT INTO subdomain (id, account, place, created_at)
	SELECT app.id, place.account, place.id, app.created_at FROM app JOIN place USING (id) WHERE app.type = 1;

-- An account's claim to a domain. Any number of accounts may claim one; it is
-- verified for one of them at most.
CREATE TABLE domain (
	name       TEXT    NOT NULL,
	account    INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	app        TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	status     TEXT    NOT NULL CHECK (status IN ('unverified', 'verified', 'failed')),
	proof      TEXT    NOT NULL UNIQUE CHECK (length(proof) > 20), -- of its TXT record
	created_at INTEGER NOT NULL,
	checked_at INTEGER NOT NULL,
	PRIMARY KEY (name, account)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX domain_verified ON domain (name) WHERE status = 'verified';
CREATE INDEX domain_account ON domain (account);
CREATE INDEX domain_app ON domain (app);
