-- Which key of the backups was shown, by its id: '' for none, '?' for the key of the moment when
-- this schema came, whose id berth stores at its next start.
ALTER TABLE backup_state ADD COLUMN shown TEXT NOT NULL DEFAULT '';
UPDATE backup_state SET shown = '?' WHERE key_shown = 1;
ALTER TABLE backup_state DROP COLUMN key_shown;
