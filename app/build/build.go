package build

import "runtime/debug"

// stamped is a version that the linker was told (-X berth/app/build.stamped=...), for
// builds that are no commit.
var stamped string

// stampedBase and stampedKey are, in the same way, where the makers of this build publish
// releases, and the key by which they sign.
var stampedBase, stampedKey string

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

// Releases returns the address where the makers of this build publish releases, and
// minisign's public key that signs them; both are empty in a build of nobody's.
func Releases() (base, key string) { return stampedBase, stampedKey }
