// Package examples holds small programs that run without a package registry. The panel deploys
// them with one click. Each is a directory with its discloud.config, as an upload has it; the
// directories that are not embedded here are for people to read and to zip.
package examples
