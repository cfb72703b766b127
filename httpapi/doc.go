// Package httpapi is version 2 of the HTTP API: it decodes a request, asks, and encodes
// the answer. No rule of hosting lives here; the rules are behind the interfaces of
// app.Services, which the panel calls too.
//
// The routes are methods of small types, each with the services that it needs:
// applications, settings, deployments, downloads, teams, names, records, feed, accounts,
// sockets. One request goes this way:
//
//	ServeHTTP   request id, common headers, recovery from panics, one log line
//	router      routes.go is the whole API on one screen
//	access      the token becomes an account; the request counts for its rate limit
//	handler     returns a response or an error; it never writes
//	send        the only place that writes JSON
//
// New makes two handlers of the same routes. One knows who asks by the token; the other
// serves the owner of the host, whom the local socket lets in (web/local), and takes the
// account from a header that the first never reads.
//
// Every answer is JSON, errors included, except downloads. An application of another
// account does not exist: the answer is 404, never 403. Only a member of its team gets a
// 403, which names the missing permission (asMember).
//
// Messages are in the language of the account that asks (call.go). What programs compare,
// logs and the audit log are the same for all accounts.
//
// A web.LimitedListener limits the connections, and RefuseConnection answers those beyond
// the limit. net/http itself answers a request that is not HTTP, in plain text.
//
// The package refuses to buffer uploads (it streams them to Deployments), to redirect,
// to guess what a malformed body meant, and to log tokens, queries and the addresses of
// downloads.
//
// # One upload over WebSocket
//
// ARCHITECTURE.md follows an upload in one request. Over WebSocket only the transport
// differs:
//
//  1. sockets.accept (socket.go) checks the handshake and takes one of the account's
//     four places.
//  2. conversation.receive (conversation.go) decodes the chunks while they come
//     (socket.Chunks, httpapi/socket), into the same Deployments.Spool.
//  3. conversation.run calls Deployments.Upload with a context that carries a function
//     (app.WithProgress). The function is reporter.progress (reporter.go). It
//     notes each phase of the deployment, and follows the log of the build through a
//     logs.Follower (Logs.FollowBuild).
//  4. reporter.report hands what is new to conversation.tell, at the pace of the client. The
//     follower holds no text, so the build never waits for the client. A client that is too
//     slow misses lines, and gets a line that says so.
//  5. conversation.finish sends the last frame and closes the connection.
//
// In one request a client that accepts server-sent events hears the same from a reporter:
// deployments.deploy (narration.go) begins the stream once the file has come, and its last
// event is the ordinary answer.
//
// # One record of the audit log
//
//  1. The row of the route names the operation (routes.go). The handler adds what matters
//     with Trail.Note (web/call.go), and never a secret.
//  2. auditor.record (audit.go) hands the app.AuditRecord to Services.Record before call.send
//     writes the answer. The record of a WebSocket follows its last frame.
//  3. Record is that of db.Auditor. Its one goroutine stores the records of a tenth of a second in
//     one transaction.
package httpapi
