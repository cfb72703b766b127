-- Whether a commit removed what earlier deploys had brought and it had not, and how
-- many files that were. brought names the list of what this deploy and those before it
-- brought, '' where no list was kept.
ALTER TABLE deploy ADD COLUMN exact INTEGER NOT NULL DEFAULT 0 CHECK (exact IN (0, 1));
ALTER TABLE deploy ADD COLUMN removed INTEGER NOT NULL DEFAULT 0 CHECK (removed >= 0);
ALTER TABLE deploy ADD COLUMN brought TEXT NOT NULL DEFAULT '';
