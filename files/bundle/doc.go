// Package bundle is the ZIP of an application: read safely, written, and the
// discloud.config inside it.
//
// Open checks every entry before a single byte is unpacked and refuses what no
// honest client sends: names that climb, are absolute, hold control characters
// or, unless they are from Windows, backslashes; links, devices and other specials; encryption; methods
// other than stored and deflated; duplicates, overlapping data, a file where a
// directory must be; and more entries, bytes or depth than the Limits. Each
// refusal is one sentence that names the entry (app.Unusable, or app.TooLarge
// where a limit on size is exceeded). Extract writes through os.Root and counts
// real bytes, so that neither a planted link nor a lying header gets anything
// outside the directory or over the limit.
//
// The Writer can put environment variables into a ZIP, of which only
// ParseVariables reads them: Extract never writes that file (variables.go).
//
// A jar is a ZIP too. One that is sent in place of a ZIP of files becomes the main file
// of an application whose main file is a jar; other programs are refused (archive.go).
//
// What slips into ZIPs, such as .git and, beside the manifest that brings it
// back, node_modules, is left out and told (leftover.go).
//
// It does not judge what the application is: whether MAIN exists, which
// language it is, whether the RAM is allowed is decided elsewhere.
//
// Package files uses it for uploads, commits and backups.
package bundle
