// Package clients drives the built daemon with public clients of its API as
// they are published: the SDK discloud.app and the command line discloud-cli.
// They start in the environment that berth client-env prints. The clients come from package.json,
// with npm, into a directory that is kept between runs. The extension of VS Code
// is no package: what it sends is replayed, and what it reads of the answers is
// read.
package clients
