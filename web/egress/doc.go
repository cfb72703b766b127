// Package egress is the one HTTP client by which berth fetches or posts for an account: whatever
// address an account names is reached through it. It connects to public addresses alone, at
// ports 80 and 443, and never to this host itself.
//
// The check is where the connection is made, after the DNS has answered (net.Dialer.ControlContext): a
// name that leads elsewhere a moment later is no way around it, and neither is another spelling of an
// address. An account of the host's owner may also reach what Options.Allow names. Redirects are not
// followed: the caller gets the answer, and takes a status of 3xx for a failure. A request takes 15 seconds
// at most, the reading of the answer included; a reader of the body gets 64 KB and then an error.
// Connections are used once, proxies of the environment are ignored, and certificates are verified.
//
// Its errors hold addresses, and so secrets: they are for nobody to read before Explain made a sentence
// of them. What the host's settings name is the owner's and does not come here (sign_in, proxy.acme, notify.smtp).
package egress
