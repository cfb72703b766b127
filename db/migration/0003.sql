-- Who else may use an application. The permissions are a set, one bit each: see
-- app.Permission. Who may do nothing is no member and has no row.
CREATE TABLE member (
	app         TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	account     INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
	permissions INTEGER NOT NULL CHECK (permissions BETWEEN 1 AND 255),
	PRIMARY KEY (app, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX member_account ON member (account);
