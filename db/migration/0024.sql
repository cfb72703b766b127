-- An exit can be the host's doing: it had no memory left, and the kernel killed the program.
ALTER TABLE exit_record ADD COLUMN host_oom INTEGER NOT NULL DEFAULT 0 CHECK (host_oom IN (0, 1));
ALTER TABLE event ADD COLUMN host_oom INTEGER CHECK (host_oom IN (0, 1));
