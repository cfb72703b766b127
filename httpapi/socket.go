package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"berth/app"
)

// The operations that speak WebSocket are below this. Clients offer an upload
// or a commit there as they do in one request, and are told how it goes.
const socketPrefix = "/v2/ws/"

const (
	accountSockets = 4  // open for one account at a time
	allSockets     = 64 // in all
	refusals       = 16 // open only to say why nothing else is
)

// exchange is one operation over a WebSocket.
type exchange struct {
	owner  app.AccountID // whose application it is
	deploy func(ctx context.Context, file string) (socketAnswer, error)
}

func (s *server) uploadSocket(c *call) (response, error) {
	return s.overSocket(c, exchange{owner: c.owner(), deploy: func(ctx context.Context, file string) (socketAnswer, error) {
		d, err := s.Deployments.Upload(ctx, c.account, file)
		if err != nil {
			return socketAnswer{}, err
		}
		c.about(d.Snapshot)
		u := socketApp{describeForVSCode(d.Snapshot), d.CreatedAt.UnixMilli()}
		return socketAnswer{Message: nullable(c.tell(outcome(app.Textf("Your application was uploaded"), d.Snapshot, s.Now()))), App: &u, Logs: d.Logs}, nil
	}})
}

func (s *server) commitSocket(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := s.Applications.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	return s.overSocket(c, exchange{owner: c.owner(), deploy: func(ctx context.Context, file string) (socketAnswer, error) {
		d, err := s.handOver(ctx, c, file)
		if err != nil {
			return socketAnswer{}, err
		}
		return socketAnswer{Message: nullable(c.tell(outcome(app.Textf("Your application was updated"), d.Snapshot, s.Now()))), Logs: d.Logs}, nil
	}})
}

// overSocket is the answer that speaks WebSocket.
func (s *server) overSocket(c *call, x exchange) (response, error) {
	if refused := c.handshake(s.BaseURL); refused != nil {
		return *refused, nil
	}
	return response{stream: func(w http.ResponseWriter) {
		give, err := s.sockets.take(c.account.ID)
		if err != nil {
			s.refuse(c, w, err)
			return
		}
		defer give()
		s.converse(c, w, x)
	}}, nil
}

// failed is the answer to a call that failed: within the protocol where the
// client speaks WebSocket, for all it makes of a refused handshake is that
// nobody is there.
func (s *server) failed(c *call, err error) response {
	if !strings.HasPrefix(c.Pattern, socketPrefix) || c.handshake(s.BaseURL) != nil {
		return s.failure(c, err)
	}
	select {
	case s.refusing <- struct{}{}:
	default: // strangers cannot hold more connections than that
		return s.failure(c, err)
	}
	return response{stream: func(w http.ResponseWriter) {
		defer func() { <-s.refusing }()
		s.refuse(c, w, err)
	}}
}

// handshake returns what is wrong with a request to speak WebSocket, nil when
// nothing is (RFC 6455, section 4.2.1). A page in a browser may speak it only if
// it came from here; other clients send no Origin.
func (c *call) handshake(base string) *response {
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
	case !sameOrigin(h.Get("Origin"), c.Request.Host, base):
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

// sameOrigin reports whether an Origin header, if there is one, names the host
// that was asked for, or the one that links lead to.
func sameOrigin(origin, host, base string) bool {
	if origin == "" {
		return true
	}
	o, err := url.Parse(origin)
	if err != nil || o.Host == "" {
		return false
	}
	b, err := url.Parse(base)
	return strings.EqualFold(o.Host, host) || err == nil && strings.EqualFold(o.Host, b.Host)
}

// sockets counts those that are open. It is safe for concurrent use.
type sockets struct {
	mu  sync.Mutex
	of  map[app.AccountID]int
	all int
}

// take admits one more, or refuses it with app.Limited or app.Unavailable. The
// caller MUST call give when it is closed.
func (s *sockets) take(id app.AccountID) (give func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[id] >= accountSockets:
		return nil, app.Errorf(app.Limited, "Your account has %d uploads over WebSocket under way, as many as one account gets. Try again when one has ended.", accountSockets)
	case s.all >= allSockets:
		return nil, app.Errorf(app.Unavailable, "All %d places for uploads over WebSocket are taken. Try again in a few minutes.", allSockets)
	}
	s.of[id]++
	s.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[id]--; s.of[id] == 0 {
			delete(s.of, id)
		}
	}, nil
}
