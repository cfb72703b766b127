// Package proxy brings the requests of the web to sites. The host name of a request
// decides which site's program, on loopback, gets the request.
//
// Visitors speak HTTP/1.1 or HTTP/2, programs HTTP/1.1 over connections that the proxy
// keeps for a moment. WebSockets and streams of events pass; every other upgrade does
// not. The proxy replaces what a request claims about its origin (X-Forwarded-* and the
// like) with what is true, unless the request comes from a proxy that the host's owner
// trusts. Tokens of berth, and cookies of its panel, never reach a program, and a program
// sets no cookie for all sites. If there is no answer to bring, a page says why in one
// sentence, and nothing else about the site.
//
// While a site is starting, the proxy holds its requests for up to ten seconds. It counts
// requests by the address they go to, so that the host can stop a program after its last
// request.
//
// The package knows no application. Config.Look answers how a site is at the moment of a
// request. Names answers which site a domain leads to. The daemon provides both.
//
// # One request for a site
//
//  1. Listener.Accept (server.go) limits the connections (web.LimitedListener). In mode edge, web/certs does the
//     TLS handshake, and serveBaseURL (daemon/handler.go) gives the host of base_url to the API
//     and the panel. On port 80 Proxy.Redirect (proxy.go) sends the visitor to HTTPS.
//  2. Proxy.ServeHTTP (proxy.go) takes the name of the host from the request (hostOf).
//     Proxy.route finds the site: by the first label below proxy.domain, or in
//     Names, an atomic table of verified domains.
//  3. Config.Look is sites.site (daemon/sites.go). At each request it makes a Site from
//     the unit's atomic snapshot (host.Host.Find), so the proxy keeps no state of an
//     application. Site.At is Snapshot.Reach: portWatch.run (host/portwatch.go) finds
//     it after each start with proc.Run.Listens.
//  4. inbound.trace (headers.go) finds the address of the visitor. Proxy.perSite limits the
//     requests of one site. Proxy.admit (start.go) holds the request while the site is
//     starting, and counts it under its address.
//  5. A site that is not up gets a page (pages.go). A site of files (app.Code.Static) has
//     a Static instead of a port: an os.Root of its tree. For the host it is an
//     application like others, whose instance (staticInstance, daemon/launch.go) runs nothing.
//  6. Everything else goes to httputil.ReverseProxy, which removes the hop headers.
//     Proxy.rewrite (forward.go) removes what no program may see or believe, and adds
//     what is true.
//  7. upstream.RoundTrip (upstream.go) sends the request to Site.At. To a port that is not
//     the program's own it is the host that connects (Config.Dial, proc.Run.Dial), to a
//     socket that is proved the program's. A GET or HEAD without a body goes over a kept
//     connection (line, line.go). http.Transport sends all other requests.
//  8. cleanAnswer (headers.go) drops cookies that would reach other sites, and those of
//     the panel. If there is no answer, Proxy.failed (forward.go) chooses a page.
//
// The daemon reads Names from the database again after each of its own changes
// (sites.refresh, daemon/sites.go): a proof, another site for a domain, a removed domain
// (domain.Config.Changed), and an application that comes or goes
// (host.Config.NamesChanged).
// If it cannot read them, no domain leads anywhere: an old table could lead to somebody
// else's site.
package proxy
