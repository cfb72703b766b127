-- Taken by another change of the same release.
SELECT 1;
