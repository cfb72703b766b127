// Package hosted makes data directories as a daemon leaves them, for the tests of
// packages that open one: daemon, cli/host and cli/doctor. What it makes is
// removed with the test.
package hosted
