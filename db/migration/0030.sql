-- Whether the program reads lines that its owner sends it.
ALTER TABLE app ADD COLUMN stdin INTEGER NOT NULL DEFAULT 0 CHECK (stdin IN (0, 1));
ALTER TABLE deploy ADD COLUMN stdin INTEGER NOT NULL DEFAULT 0 CHECK (stdin IN (0, 1));
