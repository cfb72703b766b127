// Package keyring keeps the keys that seal the secrets of a database (db.Keys) in text files
// outside the data directory: who copies that directory has no key. A line of such a file that
// begins with berth-key- is a key; the first key seals what is new, the others open what is
// older. Files have the mode 0600 and are replaced as a whole. Nothing here is ever logged.
//
// A Ring is safe for concurrent use. Its changes are not safe beside those of another process:
// make them within db.DB.Reseal, which keeps others off. Its methods block for the file system.
package keyring
