// Package proxy brings the requests of the web to sites: by the name of the
// host that a request asks for to the site's program on loopback.
//
// Strangers speak HTTP/1.1 or HTTP/2, programs HTTP/1.1 over connections that
// are kept for a moment. WebSockets and streams of events pass; every other
// upgrade does not. What a request claims of its own way here (X-Forwarded-*
// and the like) is replaced by what is true, unless it comes from a proxy that
// the owner of the host trusts. Tokens of berth, and cookies of its panel, never
// reach a program, and a program sets no cookie for all sites. Where there is no
// answer to bring, a page says why in a sentence, and never more than what
// everybody may know of a site: that it is there and does not answer.
//
// A request for a site that is starting is held for a moment. Requests are counted
// by the port they go to, so that a program can be left in peace until its last
// one is answered.
//
// The package knows no application: main tells it, with Config.Look, how a site
// is at the moment of a request, and with Names which domains lead where.
package proxy
