package cli

import "io/fs"

// openFlags are none here.
const openFlags = 0

// ownerOf knows no owner here.
func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }
