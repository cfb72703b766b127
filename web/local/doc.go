// Package local is the socket of the host's owner: a Unix socket in the runtime directory
// (the setting runtime_dir, /run/berth), on which the daemon serves the API to root.
//
//	curl --unix-socket /run/berth/berth.sock http://localhost/host
//	curl --unix-socket /run/berth/berth.sock -H 'Berth-Account: ana' http://localhost/v2/user
//
// Who asks is known by the listener and by the credentials that the kernel has of the
// client (SO_PEERCRED): uid 0, or the connection is closed without a word. There is no
// token and no limit of requests. AccountHeader names the account that a request is for,
// by its name or its number, and every account will do, a disabled one too. The
// listeners of the network do not read this header. A request without the header can ask
// for what needs no account: HostPath, which says which daemon this is (Daemon). The audit
// log has the owner of the host as the one who acted, and the account as the one it
// concerns.
//
// # The daemon
//
// Open makes the socket, and Listener accepts root's connections on it. Both make no
// decision about what is missing: daemon/local.go makes a socket again that somebody
// removed, keeps it over an upgrade in place and a restart, and goes on without one.
//
// # A client
//
// NewClient returns an http.Client whose requests all go to the socket, whatever host
// their address names; the links in answers are of that host, so fetch them with the same
// client. Ask is one request to HostPath: commands call it to learn which data directory
// is served here. A client refuses a socket that somebody other than root, or its own
// user, listens on.
//
//	client := local.NewClient(s.RuntimeDir)
//	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v2/user", nil)
//	r.Header.Set(local.AccountHeader, "ana")
//	resp, err := client.Do(r) // errors.Is(err, local.ErrNobody): no daemon runs
package local
