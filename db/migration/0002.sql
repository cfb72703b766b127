-- What the packages in the tree were installed from; '' when that is not known.
ALTER TABLE app ADD COLUMN packages TEXT NOT NULL DEFAULT '';
