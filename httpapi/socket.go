package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"berth/app"
	"berth/web"
)

// The operations that speak WebSocket are below this. Clients offer an upload
// or a commit there as they do in one request, and the server reports how it goes.
const socketPrefix = "/v2/ws/"

const (
	accountSockets = 4  // open for one account at a time
	allSockets     = 64 // in all
	refusals       = 16 // open only to say why nothing else is
)

// sockets are the routes that speak WebSocket.
type sockets struct {
	deployments deployments
	run         app.ExecService
	teams       app.Teams
	auditor     auditor
	baseURL     string
	max         int64 // bytes of a file
	open        *places
	refusing    chan struct{} // those that are open only to refuse
}

func newSockets(c Config, d deployments, a auditor) *sockets {
	return &sockets{
		deployments: d, run: c.Exec, teams: c.Teams, auditor: a, baseURL: c.BaseURL, max: c.MaxSocket,
		open: newPlaces(
			allSockets, app.Errorf(app.Unavailable, "All %d places for uploads over WebSocket are taken. Try again in a few minutes.", allSockets),
			accountSockets, app.Errorf(app.Limited,
				"Your account has %d uploads over WebSocket under way, as many as one account gets. Try again when one has ended.", accountSockets)),
		refusing: make(chan struct{}, refusals),
	}
}

// deploy makes of a file what the client asked for, and returns the last frame.
type deploy = func(ctx context.Context, file string) (socketAnswer, error)

func (s *sockets) upload(c *call) (response, error) {
	return s.accept(c, func(ctx context.Context, file string) (socketAnswer, error) {
		d, err := s.deployments.Upload(ctx, c.account, file)
		if err != nil {
			return socketAnswer{}, err
		}
		c.id, c.audit.name = d.ID, d.Name
		return socketAnswer{
			Message: new(c.outcome(app.Textf("Your application was uploaded"), d)), Logs: d.Logs,
			// The extension of VS Code puts it into its list, without asking again.
			App:  append(describeForVSCode(d.Snapshot), member{"addedAtTimestamp", d.CreatedAt.UnixMilli()}),
			Site: c.describeSite(d.Snapshot, s.deployments.address),
		}, nil
	})
}

func (s *sockets) commit(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := s.deployments.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	exact, err := asked(c, "exact")
	if err != nil {
		return response{}, err
	}
	return s.accept(c, func(ctx context.Context, file string) (socketAnswer, error) {
		d, err := s.deployments.commitSpooled(ctx, c, file, exact)
		if err != nil {
			return socketAnswer{}, err
		}
		return socketAnswer{
			Message: new(c.outcome(app.Textf("Your application was updated"), d)), Logs: d.Logs,
			Site: c.describeSite(d.Snapshot, s.deployments.address),
		}, nil
	})
}

// accept is the answer that speaks WebSocket.
func (s *sockets) accept(c *call, do deploy) (response, error) {
	if refused := handshake(c, s.baseURL); refused != nil {
		return *refused, nil
	}
	return response{stream: func(w http.ResponseWriter) {
		release, err := s.open.acquire(c.account.ID)
		if err != nil {
			s.refuse(c, w, err)
			return
		}
		defer release()
		if v := newConversation(s, c, w); v != nil {
			defer v.close()
			v.run(do)
		}
	}}, nil
}

// failed is the answer to a call that failed: within the protocol where the
// client speaks WebSocket, for all it makes of a refused handshake is that
// nobody is there.
func (s *sockets) failed(c *call, err error) response {
	if !strings.HasPrefix(c.Pattern, socketPrefix) || handshake(c, s.baseURL) != nil {
		return c.failure(err)
	}
	select {
	case s.refusing <- struct{}{}:
	default: // strangers cannot hold more connections than that
		return c.failure(err)
	}
	return response{stream: func(w http.ResponseWriter) {
		defer func() { <-s.refusing }()
		s.refuse(c, w, err)
	}}
}

// refuse sends err to a client that speaks WebSocket, and ends.
func (s *sockets) refuse(c *call, w http.ResponseWriter, err error) {
	if v := newConversation(s, c, w); v != nil {
		defer v.close()
		v.finish(v.failure(err), false)
	}
}

// handshake returns what is wrong with a request to speak WebSocket, nil when
// nothing is (RFC 6455, section 4.2.1). A page in a browser may speak it only if
// it came from here; other clients send no Origin.
func handshake(c *call, base string) *response {
	h := c.Request.Header
	refuse := func(status int, message app.Text) *response {
		r := c.refusal(status, message)
		return &r
	}
	if c.Request.Method != http.MethodGet || !hasToken(h, "Connection", "upgrade") || !hasToken(h, "Upgrade", "websocket") {
		r := refuse(http.StatusUpgradeRequired, app.Textf("This address speaks WebSocket: send the headers Connection: Upgrade and Upgrade: websocket."))
		r.header["Upgrade"], r.header["Connection"] = "websocket", "Upgrade"
		return r
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(h.Get("Sec-WebSocket-Key")))
	switch {
	case h.Get("Sec-WebSocket-Version") != "13":
		r := refuse(http.StatusBadRequest, app.Textf("The only version of WebSocket that is spoken here is 13."))
		r.header["Sec-WebSocket-Version"] = "13"
		return r
	case err != nil || len(key) != 16 || len(h.Values("Sec-WebSocket-Key")) != 1 || !c.Request.ProtoAtLeast(1, 1):
		return refuse(http.StatusBadRequest, app.Textf("The WebSocket handshake is malformed."))
	case !web.SameOrigin(h.Get("Origin"), c.Request.Host, base, c.encrypted):
		return refuse(http.StatusForbidden, app.Textf("A page of another origin may not speak WebSocket with this server."))
	}
	return nil
}

// hasToken reports whether a header lists a word, in any case.
func hasToken(h http.Header, name, word string) bool {
	for _, line := range h.Values(name) {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), word) {
				return true
			}
		}
	}
	return false
}
