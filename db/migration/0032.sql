-- A third reason to hold programs: they are on their way to another engine of the same host.
ALTER TABLE hold RENAME TO hold_before;
CREATE TABLE hold (
	why  TEXT    NOT NULL CHECK (why IN ('restored', 'moved', 'engine')),
	peer TEXT    NOT NULL, -- the other host, or the engine
	at   INTEGER NOT NULL
) STRICT;
INSERT INTO hold SELECT why, peer, at FROM hold_before;
DROP TABLE hold_before;

-- The address of the cluster on which programs of this host may run; '' for none.
ALTER TABLE meta ADD COLUMN cluster TEXT NOT NULL DEFAULT '';
