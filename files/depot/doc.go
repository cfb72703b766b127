// Package depot keeps the runtimes that the owner of the host installs beside those of the
// distribution: archives of their publishers, unpacked below the data directory.
//
//	runtimes/node/22.11.0/        the tree, root's, which programs read and execute
//	runtimes/node/22.11.0.json    where it came from, its SHA-256, when; stays when the tree is removed
//	runtimes/.new-*               an installation under way, or one that was cut short
//	runtimes/.lock                one command changes something at a time
//
// The table in publisher.go says for each language where the publisher lists its versions
// and sums. fetch.go downloads over HTTPS within bounds. unpack.go unpacks tar.gz and ZIP:
// regular files, directories, and links that stay in the tree; no other permission than
// read and execute, no owner but root.
//
// A tree gets its name by one rename, when it is whole, on the disk, and its program has
// told its version. So a version is there or is not, and the next command removes what a
// killed one left. The package refuses a sum that is not the publisher's, and a sum that is
// not the one of the same version before.
//
// The commands in cli/host change the depot; the daemon reads it at each plan, so that it
// needs no restart to see a new version.
package depot
