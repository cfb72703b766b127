package release

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// Release is what a manifest says.
type Release struct {
	Version Version
	Schema  int // of the database, once this release has opened it

	sums map[string]string // SHA-256 in hex, by the name of the file
}

// errManifest is for a manifest that is signed, and is none.
var errManifest = errors.New("its manifest is none that this berth can read")

// parse reads a manifest.
func parse(manifest []byte) (Release, error) {
	r := Release{sums: map[string]string{}}
	n := 0
	for line := range bytes.Lines(manifest) {
		n++
		first, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		var ok bool
		switch n {
		case 1:
			r.Version, ok = ParseVersion(rest)
			ok = ok && first == "version"
		case 2:
			var err error
			r.Schema, err = strconv.Atoi(rest)
			ok = first == "schema" && err == nil && r.Schema > 0
		default:
			name, two := strings.CutPrefix(rest, " ") // or "*name"
			sum, err := hex.DecodeString(first)
			ok = two && name != "" && !strings.ContainsAny(name, "/\\ \t\r") && err == nil && len(sum) == 32 && r.sums[name] == ""
			r.sums[name] = strings.ToLower(first)
		}
		if !ok {
			return Release{}, fmt.Errorf("%w: line %d is %q", errManifest, n, bytes.TrimSpace(line))
		}
	}
	if n < 3 {
		return Release{}, fmt.Errorf("%w: it names no file", errManifest)
	}
	return r, nil
}

// Package is the name of the Debian package for this processor.
func (r Release) Package() string {
	return fmt.Sprintf("berth_%s_%s.deb", r.Version, runtime.GOARCH)
}

// Archive is the name of the tar.gz for this processor, with the binary "berth" in it.
func (r Release) Archive() string {
	return fmt.Sprintf("berth_%s_linux_%s.tar.gz", r.Version, runtime.GOARCH)
}
