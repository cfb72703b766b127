-- How a site's new run is known to be well before its visitors come to it: a
-- path to ask for, '' when a connection is enough, 'off' to run no two at once.
ALTER TABLE app ADD COLUMN health TEXT NOT NULL DEFAULT '';
ALTER TABLE deploy ADD COLUMN health TEXT NOT NULL DEFAULT '';
-- The port of a second run beside the first; NULL until one was needed. It is
-- the application's as port is: no place has either of another's.
ALTER TABLE place ADD COLUMN spare INTEGER CHECK (spare BETWEEN 1 AND 65535 AND spare <> port);
CREATE UNIQUE INDEX place_spare ON place (spare);
