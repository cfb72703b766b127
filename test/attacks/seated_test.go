package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// seated is somebody in a session.
type seated struct {
	conn *websocket.Conn
	tty  bool

	mu     sync.Mutex
	out    bytes.Buffer
	exit   map[string]any // of the last frame, nil before
	status int            // of the refusal, 0 for none
	over   bool           // the connection has ended
}

// dial opens the connection of a session, or returns the status that refuses the handshake.
func (d *daemon) dial(id string, tty bool, command string, header http.Header) (*websocket.Conn, int) {
	d.t.Helper()
	header = header.Clone()
	if d.token != "" {
		header.Set("Api-Token", d.token)
	}
	query := url.Values{"tty": {strconv.FormatBool(tty)}, "command": {command}}
	address := strings.Replace(d.Base, "http", "ws", 1) + "/v2/ws/app/" + id + "/exec?" + query.Encode()
	conn, resp, err := websocket.Dial(d.t.Context(), address, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		if resp == nil {
			d.t.Fatal(err)
		}
		return nil, resp.StatusCode
	}
	conn.SetReadLimit(-1)
	d.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, http.StatusSwitchingProtocols
}

// sits opens a session whose command prints something, or returns the status that refuses it.
func (d *daemon) sits(id string, tty bool, command string, header http.Header) (*seated, int) {
	d.t.Helper()
	conn, status := d.dial(id, tty, command, header)
	if conn == nil {
		return nil, status
	}
	s := &seated{conn: conn, tty: tty}
	go s.listen()
	harness.Eventually(d.t, "the session begins", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.over || s.out.Len() > 0 || s.status > 0 || s.exit != nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status > 0 {
		return nil, s.status
	}
	if s.out.Len() == 0 {
		d.t.Errorf("the session of %q ends at once: %v", command, s.exit)
	}
	return s, status
}

func (s *seated) listen() {
	for {
		kind, text, err := s.conn.Read(context.Background())
		s.mu.Lock()
		if err != nil {
			s.over = true
			s.mu.Unlock()
			return
		}
		if kind == websocket.MessageBinary {
			if !s.tty {
				text = text[1:]
			}
			s.out.Write(text)
		} else {
			var last struct {
				Exit       map[string]any
				StatusCode int
			}
			_ = json.Unmarshal(text, &last)
			s.exit, s.status = last.Exit, last.StatusCode
		}
		s.mu.Unlock()
	}
}

func (s *seated) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *seated) types(t *testing.T, text string) {
	t.Helper()
	if err := s.conn.Write(t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
		t.Errorf("%v: %q, %s", err, s.seen(), s.ends(t))
	}
}

func (s *seated) sees(t *testing.T, text string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("the session shows %q", text), func() bool { return strings.Contains(s.seen(), text) })
}

// answers has the shell of the session work out something.
func (s *seated) answers(t *testing.T, n int) {
	t.Helper()
	s.types(t, fmt.Sprintf("echo sum=$((%d+1))\n", n))
	s.sees(t, fmt.Sprintf("sum=%d", n+1))
}

// ends waits for the end of the session, and returns why.
func (s *seated) ends(t *testing.T) string {
	t.Helper()
	harness.Eventually(t, "the session ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.over
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.exit["reason"])
}
