// Package httpapi is version 2 of the HTTP API: it decodes a request, asks,
// and encodes the answer. No rule of hosting lives here; the rules are behind
// the small interfaces of services.go, which this package declares because it
// is the one that consumes them.
//
// One request goes this way:
//
//	ServeHTTP   request id, common headers, recovery from panics, one log line
//	router      routes.go is the whole API on one screen
//	access      the token becomes an account and one request of its window
//	handler     returns a response or an error; it never writes
//	send        the only place that writes JSON
//
// Every answer is JSON, errors included, except downloads. An application of
// another account does not exist: the answer is 404, never 403, except to a
// member of its team, who is told which permission is missing (asMember).
//
// Messages are in the language of the account that asks (say.go); what programs
// compare, logs and the audit log are the same for all.
//
// Before it, a Gate bounds the connections and answers what net/http cannot read.
//
// It refuses to buffer uploads (they are streamed to the Deployer), to redirect,
// to guess what a malformed body meant, and to log tokens, queries and the
// addresses of downloads.
package httpapi
