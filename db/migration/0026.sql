-- Whose heap was full when a runtime ended its program for that: 0 none, 1 JavaScript, 2 PHP, 3 Java;
-- and how much it had, in MB, 0 when that is not known.
ALTER TABLE exit_record ADD COLUMN heap_full INTEGER NOT NULL DEFAULT 0;
ALTER TABLE exit_record ADD COLUMN heap_mb INTEGER NOT NULL DEFAULT 0;
ALTER TABLE event ADD COLUMN heap_full INTEGER;
ALTER TABLE event ADD COLUMN heap_mb INTEGER;
