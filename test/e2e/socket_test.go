package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// socket is a client as the extension for editors is one.
type socket struct {
	c    *client
	conn *websocket.Conn
	log  string // what the server has told so far
	bars []int
}

// word is a frame of the server.
type word struct {
	Status     string
	StatusCode int
	Message    *string
	Progress   struct {
		Bar int
		Log string
	}
	App  struct{ ID string }
	Logs string
}

func (c *client) socket(path string) *socket {
	c.T.Helper()
	conn, _, err := websocket.Dial(c.T.Context(), strings.Replace(c.d.Base, "http", "ws", 1)+"/v2/ws"+path, &websocket.DialOptions{
		HTTPHeader: http.Header{"Api-Token": {c.Token}, "User-Agent": {"vscode/1.99"}},
		// It offers compression, and takes no for an answer.
		CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		c.T.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	c.T.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{c: c, conn: conn}
}

// offer sends a file in chunks of one size.
func (s *socket) offer(file []byte, size int) { s.stream(bytes.NewReader(file), len(file), size) }

// stream is offer for a file of so many bytes that is not in memory.
func (s *socket) stream(file io.Reader, length, size int) {
	total := (length + size - 1) / size
	part := make([]byte, size)
	for i := range total {
		n, err := io.ReadFull(file, part[:min(size, length-i*size)])
		if err != nil {
			s.c.T.Error(err)
			return
		}
		if err := s.conn.Write(s.c.T.Context(), websocket.MessageText, harness.Frame(part[:n], i+1, i*size, total)); err != nil {
			return // it is closed already; why is said
		}
	}
}

// hear reads one frame, or the close.
func (s *socket) hear() (w word, closed websocket.CloseError, ok bool) {
	s.c.T.Helper()
	ctx, cancel := context.WithTimeout(s.c.T.Context(), 3*harness.Patience)
	defer cancel()
	_, text, err := s.conn.Read(ctx)
	if err != nil {
		if !errors.As(err, &closed) {
			s.c.T.Fatalf("after %q: %v", s.log, err)
		}
		return w, closed, false
	}
	if err := json.Unmarshal(text, &w); err != nil {
		s.c.T.Fatalf("%s: %v", text, err)
	}
	s.log += w.Progress.Log
	s.bars = append(s.bars, w.Progress.Bar)
	return w, closed, true
}

// until reads frames until the log holds a text.
func (s *socket) until(text string) {
	s.c.T.Helper()
	for !strings.Contains(s.log, text) {
		if w, closed, ok := s.hear(); !ok || w.StatusCode != 102 {
			s.c.T.Fatalf("%+v, %v instead of %q; the log is %q", w, closed, text, s.log)
		}
	}
}

// end reads to the close, and wants the last frame and the close like this.
func (s *socket) end(status int, code websocket.StatusCode) word {
	s.c.T.Helper()
	var last word
	for {
		w, closed, ok := s.hear()
		if !ok {
			if last.StatusCode != status || closed.Code != code || (last.Status == "ok") != (status == 200) || last.Message == nil {
				s.c.T.Errorf("it ended with %+v and %v, want %d and %d", last, closed, status, code)
			}
			return last
		}
		last = w
	}
}

// TestSocketUpload: an upload over WebSocket, its build seen while it runs, and
// a commit that fails.
func TestSocketUpload(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	gate := filepath.Join(d.Gates, "gate")
	build := "BUILD=printf '\\033[32mhalf way\\033[0m\\n'; until [ -e " + gate + " ]; do sleep 0.02; done; echo done"
	s := c.socket("/upload")
	s.offer(harness.NodeBot(harness.IdleNode, build, "NAME=Socket").Zip(), 100)
	s.until("\x1b[32mhalf way\x1b[0m\n") // before the end: the gate is shut
	harness.Write(t, gate, "")
	last := s.end(200, websocket.StatusNormalClosure)
	if !strings.Contains(s.log, "The upload is checked.\nBuilding.\n") || !strings.HasSuffix(s.log, "done\nStarting.\n") || !strings.Contains(last.Logs, "half way") {
		t.Errorf("the log is %q, logs %q", s.log, last.Logs)
	}
	if s.bars[len(s.bars)-1] != 100 {
		t.Errorf("the bars are %v", s.bars)
	}
	id := last.App.ID
	c.Info(id).Want(200, "apps.online", true, "apps.name", "Socket")

	s = c.socket("/app/" + id + "/commit")
	s.offer(harness.Files{"index.js": "console.log('second')\n" + harness.IdleNode}.Zip(), 1<<20)
	s.end(200, websocket.StatusNormalClosure)
	c.UntilLog(id, "second")

	s = c.socket("/app/" + id + "/commit")
	s.offer(harness.NodeBot("new", "BUILD=echo broken; exit 3").Zip(), 1<<20)
	if last := s.end(422, websocket.StatusNormalClosure); !strings.Contains(*last.Message, "BUILD failed") || !strings.Contains(last.Logs, "broken") || !strings.Contains(s.log, "broken\n") {
		t.Errorf("%q, %q, %q", *last.Message, last.Logs, s.log)
	}
	c.Info(id).Want(200, "apps.online", true)
	c.UntilLog(id, "second")
}

// TestSocketRefusals: what is wrong is told in a frame, and nothing is left.
func TestSocketRefusals(t *testing.T) {
	t.Parallel()
	d := launch(t, "--upload-max-socket", "1")
	c := d.account("ana", 100)
	stranger := &client{&harness.Client{T: t, Berth: d.Berth, Token: "x"}, d}
	if last := stranger.socket("/upload").end(401, websocket.StatusPolicyViolation); !strings.Contains(*last.Message, "token") {
		t.Errorf("a bad token: %q", *last.Message)
	}
	c.socket("/app/nobody/commit").end(404, websocket.StatusPolicyViolation)
	for name, tt := range map[string]struct {
		frames [][]byte
		status int
		code   websocket.StatusCode
	}{
		"wrong order": {[][]byte{harness.Frame([]byte("PK"), 2, 2, 2)}, 400, websocket.StatusPolicyViolation},
		"too large":   {[][]byte{harness.Frame(make([]byte, 900<<10), 1, 0, 2), harness.Frame(make([]byte, 900<<10), 2, 900<<10, 2)}, 413, websocket.StatusMessageTooBig},
		"not a ZIP":   {[][]byte{harness.Frame([]byte("PK"), 1, 0, 1)}, 422, websocket.StatusNormalClosure},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.in(t).socket("/upload")
			for _, f := range tt.frames {
				if err := s.conn.Write(t.Context(), websocket.MessageText, f); err != nil {
					t.Fatal(err)
				}
			}
			s.end(tt.status, tt.code)
		})
	}
	s := c.socket("/upload")
	if err := s.conn.Write(t.Context(), websocket.MessageText, harness.Frame([]byte("PK"), 1, 0, 2)); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it arrives", func() bool { return len(d.Entries("staging")) == 1 })
	_ = s.conn.CloseNow()
	harness.Eventually(t, "staging is empty", func() bool { return len(d.Entries("staging")) == 0 })
	c.Get("/user").Want(200, "user.apps", "[]", "user.ramUsedMb", 0)
}

// TestSocketHangsUp: the work goes on when the client is gone.
func TestSocketHangsUp(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	gate := filepath.Join(d.Gates, "gate")
	s := c.socket("/upload")
	s.offer(gated(gate, harness.IdleNode).Zip(), 1000)
	s.until("Building.\n")
	_ = s.conn.CloseNow()
	harness.Write(t, gate, "")
	harness.Eventually(t, "the application is there", func() bool { return len(c.IDs()) == 1 })
	c.Until(c.IDs()[0], "apps.online", true)
}

// TestSocketInAShutdown: a client that sends, and one whose build runs, are told.
func TestSocketInAShutdown(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	sends := c.socket("/upload")
	if err := sends.conn.Write(t.Context(), websocket.MessageText, harness.Frame([]byte("PK"), 1, 0, 2)); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it arrives", func() bool { return len(d.Entries("staging")) == 1 })
	builds := c.socket("/upload")
	builds.offer(gated(filepath.Join(d.Gates, "gate"), harness.IdleNode).Zip(), 1000)
	builds.until("Building.\n")
	began := time.Now()
	d.Signal(syscall.SIGTERM)
	builds.end(503, websocket.StatusNormalClosure)
	sends.end(503, websocket.StatusTryAgainLater)
	harness.Eventually(t, "the daemon ends", d.Ended)
	if code := d.Cmd.ProcessState.ExitCode(); code != 0 || time.Since(began) > harness.Patience/2 {
		t.Errorf("exit status %d after %v", code, time.Since(began))
	}
	d.Serve()
	c.Get("/user").Want(200, "user.apps", "[]")
}
