// Package packages tests what make release and make apt-repository make: packages that have
// the same bytes each time, that lintian finds nothing in, and that apt installs, upgrades
// and removes in a root directory of its own. That the daemon and its programs live through
// that is tested in a guest (test/e2e, TestGuestPackages).
package packages
