// Package build is what is known of this build of berth: its version, and where its
// makers publish releases.
package build
