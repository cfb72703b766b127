-- The name of the control groups that the programs run in: '' until a daemon has
-- named them, which it does once. A data directory may be moved.
ALTER TABLE meta ADD COLUMN group_name TEXT NOT NULL DEFAULT '';

-- Whether the removal of the application was recorded. What has a place and is no
-- application without that is an upload that was cut short.
ALTER TABLE place ADD COLUMN removed INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1));
