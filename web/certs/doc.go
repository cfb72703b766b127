// Package certs gets certificates for names by ACME (RFC 8555), keeps them fresh and
// finds the one that a visitor needs.
//
// The daemon sets the names that are wanted (Manager.Want). The package asks the
// certificate authority for nothing else, so a visitor who asks for a name that nobody
// has costs a look into a table. No visitor starts an order either: one goroutine decides
// what is due, two orders run at a time, at most PerHour new names begin in an hour, and
// a name that the authority refused waits longer each time. If the authority does not
// answer, the package pauses for all names. It stores the time of an order, and of the
// next try, before it asks the authority, so a restart forgets no limit.
//
// A name that is no longer wanted gets no certificate from the next handshake on. Its
// certificate stays in the store until it expires, for the same name may come back, and
// authorities give few certificates for one name. Nobody renews it.
//
// The authority finds the proof that berth has a name on the ports that visitors use:
// Answer for HTTP-01, ConfigFor for TLS-ALPN-01 (RFC 8737). A wildcard needs a proof in
// the DNS, so certificates for wildcards come from files.
//
// # One handshake
//
// In mode edge with proxy.tls = "acme", sites.openTLS (daemon/tls.go) makes the TLS
// settings of the sites' listener.
//
//  1. Manager.ConfigFor (handshake.go) looks whether the handshake is the authority's own check
//     (acme-tls/1). If so, it answers with the proof (handshake.go).
//  2. proxy.Certificates.Match (web/proxy/certs.go) looks in the files for a valid
//     certificate of that name. A file goes before ACME.
//  3. Manager.Find (handshake.go) looks into its table in memory. For a name that is not wanted
//     the handshake fails with the alert unrecognized_name. While the first order of a
//     name is under way, or about to begin, the visitor waits for at most eight seconds,
//     and at most 64 visitors wait.
//
// # One certificate
//
//  1. sites.refresh (daemon/sites.go) reads the verified domains, after each change that
//     the daemon makes. sites.want (daemon/tls.go) adds the names of sites and gives all
//     of them to Manager.Want.
//  2. Manager.Run (manager.go) is the one goroutine that orders and renews. Manager.agenda
//     (schedule.go) says what is due.
//  3. Manager.order stores that it is about to ask, and then asks the authority (ca.go).
//  4. The authority checks the name. Manager.Answer (handshake.go) answers on port 80, before
//     any redirect; Manager.ConfigFor answers on port 443.
//  5. Manager.finish (schedule.go) takes the certificate, or notes the failure and the
//     time of the next try. Manager.order stores the result.
//
// Store is what the package remembers; Config.Covered says which names need no
// certificate. docs/adr/0026 has the reasons.
package certs
