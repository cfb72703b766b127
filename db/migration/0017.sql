-- What an account may have at most beside its RAM, 0 for no bound of its own: the disk, in
-- MB, and the number of its applications, the processor, in percent of one, for all of its
-- programs together, builds that run at once, and backups of its applications.
ALTER TABLE account ADD COLUMN disk_max INTEGER NOT NULL DEFAULT 0 CHECK (disk_max >= 0);
ALTER TABLE account ADD COLUMN apps_max INTEGER NOT NULL DEFAULT 0 CHECK (apps_max >= 0);
ALTER TABLE account ADD COLUMN cpu_max INTEGER NOT NULL DEFAULT 0 CHECK (cpu_max >= 0);
ALTER TABLE account ADD COLUMN builds_max INTEGER NOT NULL DEFAULT 0 CHECK (builds_max >= 0);
ALTER TABLE account ADD COLUMN backups_max INTEGER NOT NULL DEFAULT 0 CHECK (backups_max >= 0);
