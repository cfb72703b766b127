-- What a token may do: NULL for everything that its account may, else a set of the
-- permissions of teams, with the applications of token_app alone.
ALTER TABLE token ADD COLUMN may INTEGER CHECK (may BETWEEN 1 AND 255);

-- The rows of an application go with it: who takes its id later is another.
CREATE TABLE token_app (
	token INTEGER NOT NULL REFERENCES token (id) ON DELETE CASCADE,
	app   TEXT    NOT NULL REFERENCES app (id) ON DELETE CASCADE,
	PRIMARY KEY (token, app)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_app_app ON token_app (app);
