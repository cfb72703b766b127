-- The icon of an application: a PNG that berth wrote.
CREATE TABLE icon (
	app     TEXT    NOT NULL PRIMARY KEY REFERENCES app (id) ON DELETE CASCADE ON UPDATE CASCADE,
	sum     TEXT    NOT NULL, -- of the PNG: pages name it in the address
	brought INTEGER NOT NULL CHECK (brought IN (0, 1)), -- it came with the code, nobody uploaded it
	png     BLOB    NOT NULL
) STRICT;
CREATE INDEX icon_sum ON icon (app, sum);
