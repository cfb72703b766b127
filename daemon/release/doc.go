// Package release reads what berth's makers publish: a signed manifest, and the files that it
// names with their SHA-256.
//
//	version 1.3.0
//	schema 34
//	2f1c...e0  berth_1.3.0_amd64.deb
//	77ab...19  berth_1.3.0_linux_amd64.tar.gz
//
// The server and the network are not trusted. A file counts if its sum is in the manifest, and the
// manifest counts if manifest.minisig, beside it, is its signature by the key that the caller
// names. What is downloaded is bounded in size and in time. The package runs and installs nothing.
package release
