// Package checkout lists the files of berth's checkout for tests that read its sources. It
// leaves out what make builds there: a Go toolchain in .cache, and releases in dist.
package checkout
