// Package certs gets certificates for names by ACME (RFC 8555), keeps them fresh
// and finds the one that a visitor needs.
//
// Which names are wanted is told to it; nothing else is ever asked of the
// certificate authority, so a visitor who asks for a name that nobody has costs
// a look into a table. No visitor starts an order either: one goroutine decides
// what is due, two orders run at a time, so many new names are begun in an hour,
// and a name that was refused waits longer each time. An authority that does not
// answer is left alone for a while, whatever the name. All of that is stored
// before the authority is asked, so a restart forgets no limit.
//
// A name that is no longer wanted is refused at once. Its certificate stays in
// the store until it expires, for the same name may come back, and authorities
// give few certificates for one; it is not renewed.
//
// What proves that berth has a name is answered on the ports that visitors use:
// Answer for HTTP-01, ConfigFor for TLS-ALPN-01 (RFC 8737). Wildcards, which need
// the DNS, are for certificates from files. main uses the package.
package certs
