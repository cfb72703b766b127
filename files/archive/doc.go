// Package archive is the format of a backup of a whole host: a tar file,
// compressed with gzip, that is written and read as a stream and says of itself
// whether it is whole.
//
// Its entries belong to parts: the database, the settings, the files of one
// application, its journals. The last entry is a manifest with the size and the
// SHA-256 of each part, over names, owners, modes, times and contents. A part
// may come again, when what it was made of changed meanwhile; then the later one
// counts. See docs/adr/0020-host-archive.md.
//
// It opens no file and decides nothing. Package files fills it from the trees of
// applications and takes them out of it; the commands below "berth backup" do
// the rest.
package archive
