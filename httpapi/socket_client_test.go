package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"berth/app"
	"berth/test/harness"
)

// talker is a client as the extension for editors is one.
type talker struct {
	t    *testing.T
	conn *websocket.Conn
}

// talk opens a WebSocket to a server around w.
func talk(t *testing.T, w *world, path string, header http.Header) *talker {
	t.Helper()
	server := httptest.NewServer(w.handler())
	t.Cleanup(server.Close)
	return dial(t, server.Client(), server.URL+path, header)
}

func dial(t *testing.T, client *http.Client, url string, header http.Header) *talker {
	t.Helper()
	if header == nil {
		header = http.Header{}
	}
	if header.Get(tokenHeader) == "" {
		header.Set(tokenHeader, goodToken)
	}
	header.Set("X-Request-Id", "request-1")
	conn, resp, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("ratelimit-remaining") == "" {
		t.Error("the handshake has no rate limit headers")
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &talker{t, conn}
}

// framesOf is a file in frames of n bytes.
func framesOf(file []byte, n int) [][]byte {
	total := (len(file) + n - 1) / n
	var frames [][]byte
	for i := range total {
		frames = append(frames, harness.Frame(file[i*n:min((i+1)*n, len(file))], i+1, i*n, total))
	}
	return frames
}

func (c *talker) send(frames ...[]byte) {
	c.t.Helper()
	for _, f := range frames {
		if err := c.conn.Write(c.t.Context(), websocket.MessageText, f); err != nil {
			c.t.Fatal(err)
		}
	}
}

// heard is what a server said.
type heard struct {
	frames []socketHeard
	log    string // of all
	code   websocket.StatusCode
	reason string
}

type socketHeard struct {
	Status     string
	StatusCode int
	Message    *string
	Progress   *socketProgress
	App        json.RawMessage
	Logs       string
	RequestID  string
}

func (h heard) last() socketHeard {
	if len(h.frames) == 0 {
		return socketHeard{}
	}
	return h.frames[len(h.frames)-1]
}

// listen reads until the close.
func (c *talker) listen() heard {
	c.t.Helper()
	var h heard
	for {
		kind, text, err := c.conn.Read(c.t.Context())
		if err != nil {
			var closed websocket.CloseError
			if !errors.As(err, &closed) {
				c.t.Fatalf("after %+v: %v", h, err)
			}
			h.code, h.reason = closed.Code, closed.Reason
			return h
		}
		f := c.parse(kind, text)
		if h.last().StatusCode != statusUnderWay && len(h.frames) > 0 {
			c.t.Errorf("a frame after the last: %s", text)
		}
		h.frames, h.log = append(h.frames, f), h.log+f.Progress.Log
	}
}

// parse checks what holds for every frame.
func (c *talker) parse(kind websocket.MessageType, text []byte) socketHeard {
	c.t.Helper()
	var f socketHeard
	if err := json.Unmarshal(text, &f); err != nil || kind != websocket.MessageText {
		c.t.Fatalf("%q: %v", text, err)
	}
	under := f.StatusCode == statusUnderWay
	if f.Progress == nil || under && (f.Status != statusOK || f.Message != nil || !strings.Contains(string(text), `"message":null`)) ||
		!under && f.Message == nil || f.Progress.Bar < 0 || f.Progress.Bar > 100 {
		c.t.Errorf("odd frame %s", text)
	}
	return f
}

// build is the output of a build.
type build struct {
	app.Logs
	ready  chan struct{}
	text   chan string
	closed chan struct{}
}

func (b *build) FollowBuild(app.ID) (app.Follower, error) { return b, nil }
func (b *build) Ready() <-chan struct{}                   { return b.ready }
func (b *build) Close()                                   { close(b.closed) }

func (b *build) Take() string {
	select {
	case text := <-b.text:
		return text
	default:
		return ""
	}
}

// socketScenes are the answers to requests that are no handshake, or none from
// here; what is said within a WebSocket is tested beside.
func socketScenes() []scene {
	var list []scene
	for name, path := range map[string]string{
		"ws_upload": "/v2/ws/upload", "ws_app_commit": "/v2/ws/app/{appID}/commit", "ws_team_commit": "/v2/ws/team/{appID}/commit",
		"ws_app_exec": "/v2/ws/app/{appID}/exec",
	} {
		add := func(outcome string, header map[string]string) {
			s := scene{name: name + "_" + outcome, method: "GET", op: path, path: strings.Replace(path, "{appID}", "bot-one", 1), header: header}
			if name == "ws_team_commit" {
				s.arrange = func(w *world) { w.join(app.AllPermissions) }
			}
			list = append(list, s)
		}
		upgrade := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
		add("no_upgrade", nil)
		add("invalid", upgrade) // without a key
		add("another_version", map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "8"})
		add("another_origin", map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "https://evil.example",
		})
	}
	list = append(list, scene{name: "ws_app_exec_not_found", method: "GET", op: "/v2/ws/app/{appID}/exec", path: "/v2/ws/app/nobody/exec"})
	for _, name := range []string{"app", "team"} {
		list = append(list, scene{name: "ws_" + name + "_commit_not_found", method: "GET", op: "/v2/ws/" + name + "/{appID}/commit", path: "/v2/ws/" + name + "/nobody/commit"})
	}
	return list
}
