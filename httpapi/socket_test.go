package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/httpapi/socket"
	"berth/test/harness"
)

func TestSocketUpload(t *testing.T) {
	w := newWorld(t)
	w.deployed = app.Deployed{Snapshot: bot("bot-one"), Logs: "added 12 packages"}
	b := &build{ready: make(chan struct{}, 1), text: make(chan string, 1), closed: make(chan struct{})}
	w.config.Logs = b
	release := make(chan struct{})
	w.before = func(ctx context.Context, _ string) {
		tell := app.ProgressOf(ctx)
		tell(app.Progress{Phase: app.Checked, App: "bot-one"})
		tell(app.Progress{Phase: app.Queued, App: "bot-one", Position: 3})
		tell(app.Progress{Phase: app.Building, App: "bot-one"})
		b.text <- "\x1b[32mnpm\x1b[0m installs\n"
		b.ready <- struct{}{}
		<-release
		b.text <- "npm is done\n"
		tell(app.Progress{Phase: app.Launching, App: "bot-one"})
	}
	c := talk(t, w, "/v2/ws/upload", nil)
	file := bytes.Repeat([]byte("PK content\x00\xff"), 1000)
	if err := c.conn.Write(t.Context(), websocket.MessageText, framesOf(file, 5000)[0]); err != nil {
		t.Fatal(err)
	}
	c.send(framesOf(file, 5000)[1:]...)
	live := "" // before the work is over
	for !strings.Contains(live, "installs") {
		_, text, err := c.conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		live += c.parse(websocket.MessageText, text).Progress.Log
	}
	close(release)
	h := c.listen()
	want := "The upload is checked.\nWaiting to be built: number 3 in the queue.\nBuilding.\n\x1b[32mnpm\x1b[0m installs\nnpm is done\nStarting.\n"
	if live+h.log != want {
		t.Errorf("the log is %q, want %q", live+h.log, want)
	}
	last := h.last()
	if h.code != 1000 || h.reason != "" || last.Status != "ok" || last.StatusCode != 200 || last.Progress.Bar != 100 ||
		*last.Message != "Your application was uploaded." || last.Logs != "added 12 packages" {
		t.Errorf("it ended with %+v %d %q", last, h.code, h.reason)
	}
	// The extension shows this as it shows what /vscode tells.
	shown := append(describeForVSCode(w.deployed.Snapshot), member{"addedAtTimestamp", w.deployed.CreatedAt.UnixMilli()})
	if string(last.App) != string(encode(shown)) || !strings.HasPrefix(string(last.App), `{"id":"bot-one",`) {
		t.Errorf("the application is %s, want %s", last.App, encode(shown))
	}
	if w.spooled["spool-1"] != string(file) || len(w.handed) != 1 {
		t.Errorf("%d files of %d bytes handed over", len(w.handed), len(w.spooled["spool-1"]))
	}
	w.checkSpools(t)
	<-b.closed
}

func TestSocketCommit(t *testing.T) {
	w := newWorld(t)
	w.deployed.Snapshot = bot("bot-one")
	c := talk(t, w, "/v2/ws/app/bot-one/commit", nil)
	c.send(framesOf([]byte("PK"), 1)...)
	h := c.listen()
	if last := h.last(); h.code != 1000 || last.StatusCode != 200 || last.App != nil || *last.Message != "Your application was updated." {
		t.Errorf("%+v", h)
	}
	if w.called("Commit bot-one") != 1 || w.called("Exact bot-one") != 0 {
		t.Errorf("called %v", w.calls)
	}
	c = talk(t, w, "/v2/ws/app/bot-one/commit?exact=true", nil)
	c.send(framesOf([]byte("PK"), 1)...)
	if c.listen(); w.called("Exact bot-one") != 1 {
		t.Errorf("called %v", w.calls)
	}
	if h := talk(t, w, "/v2/ws/app/bot-one/commit?exact=1", nil).listen(); h.last().StatusCode != 400 || !strings.Contains(*h.last().Message, "exact must be given once") {
		t.Errorf("%+v", h)
	}
}

func TestSocketTellsAFailedDeployment(t *testing.T) {
	w := newWorld(t)
	w.fail["Upload"] = &app.Error{Kind: app.Unusable, Message: app.Textf("The build failed."), Logs: "npm ERR! 404\n"}
	c := talk(t, w, "/v2/ws/upload", nil)
	c.send(framesOf([]byte("PK"), 2)...)
	h := c.listen()
	last := h.last()
	if last.Status != "error" || last.StatusCode != 422 || *last.Message != "The build failed." || last.Logs != "npm ERR! 404\n" || last.RequestID != "request-1" {
		t.Errorf("%+v", last)
	}
	if h.code != 1000 || h.reason != `{"status":"error","statusCode":422}` {
		t.Errorf("closed with %d %q", h.code, h.reason)
	}
}

func TestSocketRefusals(t *testing.T) {
	two := framesOf([]byte("PK content"), 5)
	for name, tt := range map[string]struct {
		path    string
		token   string
		arrange func(*world)
		frames  [][]byte
		status  int
		code    websocket.StatusCode
		says    string
	}{
		"bad token":       {token: "wrong", status: 401, code: 1008, says: "not valid"},
		"disabled":        {token: offToken, status: 403, code: 1008, says: "disabled"},
		"not there":       {path: "/v2/ws/app/nobody/commit", status: 404, code: 1008, says: "no application"},
		"no ID":           {path: "/v2/ws/app/-x/commit", status: 404, code: 1008, says: "no application"},
		"wrong order":     {frames: [][]byte{two[1]}, status: 400, code: 1008, says: "Chunk 2 came where chunk 1 was to come."},
		"twice":           {frames: [][]byte{two[0], two[0]}, status: 400, code: 1008, says: "Chunk 1 came where chunk 2"},
		"wrong offset":    {frames: [][]byte{harness.Frame([]byte("PK"), 1, 7, 1)}, status: 400, code: 1008, says: "begins at byte 7"},
		"other total":     {frames: [][]byte{two[0], harness.Frame([]byte("PK"), 2, 5, 3)}, status: 400, code: 1008, says: "the first said 2"},
		"no chunks":       {frames: [][]byte{harness.Frame(nil, 0, 0, 0)}, status: 400, code: 1008, says: "there are 0 chunks"},
		"empty chunk":     {frames: [][]byte{harness.Frame(nil, 1, 0, 2)}, status: 400, code: 1008, says: "empty"},
		"not JSON":        {frames: [][]byte{[]byte("hello")}, status: 400, code: 1008, says: "malformed"},
		"no chunk":        {frames: [][]byte{[]byte(`{"current":1}`)}, status: 400, code: 1008, says: "chunk.data"},
		"a number of 256": {frames: [][]byte{[]byte(`{"chunk":{"type":"Buffer","data":[1,256]}}`)}, status: 400, code: 1008, says: "0 to 255"},
		"too large":       {arrange: func(w *world) { w.config.MaxSocket = 9 }, frames: two, status: 413, code: 1009, says: "larger than the 9B"},
		"too large to be": {arrange: func(w *world) { w.config.MaxSocket = 9 }, frames: [][]byte{harness.Frame([]byte("PK cc"), 1, 0, 9)}, status: 413, code: 1009, says: "9B"},
		"a large chunk":   {frames: [][]byte{harness.Frame(make([]byte, socket.MaxChunk+1), 1, 0, 1)}, status: 413, code: 1009, says: "A chunk holds more than 1MB."},
		"full disk":       {arrange: func(w *world) { w.fail["Spool"] = app.Errorf(app.Exhausted, "The disk is full.") }, frames: two, status: 422, code: 1008, says: "full"},
		"internal":        {arrange: func(w *world) { w.fail["Spool"] = errors.New("secret path") }, frames: two, status: 500, code: 1011, says: "internal error"},
		"shutting down": {
			arrange: func(w *world) { w.fail["Authenticate"] = app.Errorf(app.Unavailable, "The server is shutting down.") },
			status:  503, code: 1013, says: "shutting down",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tt.arrange != nil {
				tt.arrange(w)
			}
			if tt.path == "" {
				tt.path = "/v2/ws/upload"
			}
			c := talk(t, w, tt.path, http.Header{"Api-Token": {tt.token}})
			c.send(tt.frames...)
			h := c.listen()
			last := h.last()
			if last.Status != "error" || last.StatusCode != tt.status || !strings.Contains(*last.Message, tt.says) || h.code != tt.code {
				t.Errorf("it ended with %+v %q, %d %q", last, *last.Message, h.code, h.reason)
			}
			if len(w.handed) > 0 {
				t.Error("a file was handed over")
			}
			w.checkSpools(t)
		})
	}
}

func TestSocketTakesTextAlone(t *testing.T) {
	c := talk(t, newWorld(t), "/v2/ws/upload", nil)
	if err := c.conn.Write(t.Context(), websocket.MessageBinary, []byte("PK")); err != nil {
		t.Fatal(err)
	}
	if h := c.listen(); h.last().StatusCode != 400 || h.code != 1008 {
		t.Errorf("%+v", h)
	}
}

func TestSocketHandshake(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(r *http.Request)
		status int
	}{
		"no upgrade":        {func(r *http.Request) { r.Header.Del("Upgrade") }, 426},
		"no connection":     {func(r *http.Request) { r.Header.Set("Connection", "keep-alive") }, 426},
		"another version":   {func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") }, 400},
		"a bad key":         {func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "x") }, 400},
		"another origin":    {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"a page in plain":   {func(r *http.Request) { r.TLS = &tls.ConnectionState{}; r.Header.Set("Origin", "http://example.com") }, 403},
		"no origin at all":  {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"bad token and all": {func(r *http.Request) { r.Header.Set(tokenHeader, "x"); r.Header.Set("Origin", "https://evil.example") }, 401},
	} {
		r := newRequest("GET", "/v2/ws/upload", "")
		for key, value := range map[string]string{
			"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			r.Header.Set(key, value)
		}
		tt.change(r)
		if rec := do(t, newWorld(t).handler(), r); rec.Code != tt.status {
			t.Errorf("%s: status %d, want %d: %s", name, rec.Code, tt.status, rec.Body)
		}
	}
}

func TestSocketCutWhileSendingLeavesNothing(t *testing.T) {
	for name, cut := range map[string]func(c *talker){
		"closed":      func(c *talker) { _ = c.conn.Close(websocket.StatusGoingAway, "") },
		"cut":         func(c *talker) { _ = c.conn.CloseNow() },
		"in a frame":  func(c *talker) { half(c); _ = c.conn.CloseNow() },
		"in a number": func(c *talker) { half(c); _ = c.conn.Close(1000, "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			server := httptest.NewServer(w.handler())
			c := dial(t, server.Client(), server.URL+"/v2/ws/upload", nil)
			c.send(framesOf([]byte("PK content"), 5)[0])
			cut(c)
			server.Close()
			deadline := time.Now().Add(time.Minute)
			for len(leakedSockets()) > 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if len(w.handed) > 0 || w.called("Upload") > 0 {
				t.Error("half of a file was handed over")
			}
			w.checkSpools(t)
		})
	}
}

// half sends the beginning of a frame.
func half(c *talker) {
	w, err := c.conn.Writer(c.t.Context(), websocket.MessageText)
	if err == nil {
		_, err = io.WriteString(w, `{"chunk":{"type":"Buffer","data":[80,7`)
	}
	if err != nil {
		c.t.Error(err)
	}
}

func leakedSockets() []string {
	var list []string
	for _, stack := range leaked() {
		if strings.Contains(stack, "converse") {
			list = append(list, stack)
		}
	}
	return list
}

func TestSocketHangUpDoesNotStopTheWork(t *testing.T) {
	w := newWorld(t)
	w.deployed.Snapshot = bot("bot-one")
	began, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.before = func(ctx context.Context, _ string) {
		close(began)
		<-release
		ended <- ctx.Err()
	}
	c := talk(t, w, "/v2/ws/upload", nil)
	c.send(framesOf([]byte("PK"), 2)...)
	<-began
	_ = c.conn.CloseNow()
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the context of the work ended: %v", err)
	}
	if len(w.handed) != 1 {
		t.Errorf("handed over %v", w.handed)
	}
}

func TestSocketsAreLimited(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.handler())
	t.Cleanup(server.Close)
	var open []*talker
	for range accountSockets {
		c := dial(t, server.Client(), server.URL+"/v2/ws/upload", nil)
		c.send(framesOf([]byte("PK content"), 5)[0])
		_, text, err := c.conn.Read(t.Context()) // its place is taken
		if err != nil || c.parse(websocket.MessageText, text).Progress.Bar != 50 {
			t.Fatal(string(text), err)
		}
		open = append(open, c)
	}
	h := dial(t, server.Client(), server.URL+"/v2/ws/upload", nil).listen()
	if last := h.last(); last.StatusCode != 429 || h.code != 1013 || !strings.Contains(*last.Message, "4 uploads") {
		t.Errorf("%+v", h)
	}
	w.deployed.Snapshot = bot("bot-one")
	open[0].send(framesOf([]byte("PK content"), 5)[1])
	if h := open[0].listen(); h.last().StatusCode != 200 {
		t.Errorf("%+v", h)
	}
	for _, c := range open[1:] {
		_ = c.conn.CloseNow()
	}
}

// TestSocketCommitByMember: the permission opens it, and the owner's
// application is committed to.
func TestSocketCommitByMember(t *testing.T) {
	for _, may := range []bool{true, false} {
		w := newWorld(t)
		w.deployed = app.Deployed{Snapshot: bot("bot-one")}
		w.join(app.AllPermissions)
		if !may {
			w.join(app.AllPermissions &^ app.Permissions(app.CommitApp))
		}
		c := talk(t, w, "/v2/ws/team/bot-one/commit", nil)
		if may {
			c.send(framesOf([]byte("PK"), 10)...)
		}
		h := c.listen()
		want := 403
		if may {
			want = 200
		}
		if last := h.last(); last.StatusCode != want || w.called("Commit") == 1 != may || !may && !strings.Contains(*last.Message, "commit_app") {
			t.Errorf("may %t: it ended with %+v after %v", may, last, w.calls)
		}
	}
}
