-- An account that is suspended: its programs do not run, and everything of it is kept. why
-- is for its owner to read, '' when nobody said.
ALTER TABLE account ADD COLUMN suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1));
ALTER TABLE account ADD COLUMN suspended_why TEXT NOT NULL DEFAULT '' CHECK (suspended = 1 OR suspended_why = '');
