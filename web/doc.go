// Package web holds what every edge does with the connections and requests it takes. The
// edges themselves are httpapi and the packages below.
//
// A LimitedListener limits the connections, in all and from one address, and knows which
// are busy. Networks are the proxies that an edge trusts to say where a request comes from.
//
// A Call is one request: its status, its one line in the log, what a panic comes to. It
// bounds the body (Body), takes a file out of it (Upload), and streams events (Stream).
// None of it speaks to a client: the sentences are the edge's, which gives them, or the
// fault that Body found. StatusOf is the HTTP status of an error.
//
// Inflight counts the requests that run, so that an end or an upgrade can wait for them.
package web
