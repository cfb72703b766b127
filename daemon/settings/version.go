package settings

import (
	"runtime/debug"
)

// stamped is a version that the linker was told (-X berth/daemon/settings.stamped=...), for
// builds that are no commit.
var stamped string

// Version is the version that the Go tool stamped: a tag, or a commit.
func Version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
