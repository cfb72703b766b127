package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/web"
)

// A byte now and then is not enough for ever.
func TestBodyThatNeverEndsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.MaxUpload = 32 << 10
		conn := connect(t, w)
		began, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.WriteString(conn, uploadHead+announced(30<<10)+uploadBody[:60])
			for {
				<-time.After(web.Patience / 2)
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
			}
		}()
		status, text := readAnswer(t, conn)
		if status != http.StatusBadRequest || !strings.Contains(text, "The body did not come within 1m 2s, so the request was given up.") {
			t.Errorf("status %d: %s", status, text)
		}
		if waited := time.Since(began); waited < web.Longest(32<<10) || waited > web.Longest(32<<10)+web.Patience {
			t.Errorf("waited %v", waited)
		}
		_ = conn.Close()
		<-done
		w.checkSpools(t)
	})
}

// Answers without a body are held by a client that takes nothing, too.
func TestClientThatTakesNoEmptyAnswersLosesItsConnection(t *testing.T) {
	for name, request := range map[string]string{
		"OPTIONS": "OPTIONS /v2/user HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"HEAD":    "HEAD /v2/app/bot-one/backup HTTP/1.1\r\nHost: example.com\r\nApi-Token: " + goodToken + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				conn := connect(t, w)
				sendText(conn, strings.Repeat(request, 2000))
				<-time.After(3 * web.Patience)
				text, err := io.ReadAll(conn)
				if err != nil || len(text) > 100<<10 {
					t.Errorf("%d bytes were still sent, %v", len(text), err)
				}
			})
		})
	}
}

// One account cannot hold any number of connections, and room on the disk.
func TestUploadsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		h := w.handler()
		var ends []func()
		answers := make(chan int, accountUploads)
		for range accountUploads {
			body, rest := io.Pipe()
			r := zipRequest("POST", "/v2/upload", "PK")
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			r.Body, r.ContentLength = body, int64(len(text))
			go func() { answers <- do(t, h, r).Code }()
			go func() { _, _ = rest.Write(text[:40]) }()
			ends = append(ends, func() { _, _ = rest.Write(text[40:]); _ = rest.Close() })
		}
		synctest.Wait()
		rec := do(t, h, zipRequest("POST", "/v2/upload", "PK"))
		want := fmt.Sprintf("Your account has %d uploads under way, the most that an account may have. Try again when one has ended.", accountUploads)
		var said errorBody
		decode(t, rec, &said)
		if rec.Code != http.StatusTooManyRequests || said.Message != want || rec.Header().Get("Retry-After") == "" {
			t.Errorf("status %d: %+v", rec.Code, said)
		}
		ends[0]()
		if code := <-answers; code != http.StatusOK {
			t.Errorf("the one that came whole: status %d", code)
		}
		if rec := do(t, h, zipRequest("POST", "/v2/upload", "PK")); rec.Code != http.StatusOK {
			t.Errorf("after one has come: status %d", rec.Code)
		}
		for _, end := range ends[1:] {
			end()
			if code := <-answers; code != http.StatusOK {
				t.Errorf("status %d", code)
			}
		}
	})
}

func TestSocketThatNeverEndsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.MaxSocket = 32 << 10
		c := overPipe(t, w, t.Context())
		began, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			for _, frame := range framesOf(bytes.Repeat([]byte("x"), 1000), 1) {
				if c.conn.Write(t.Context(), websocket.MessageText, frame) != nil {
					return
				}
				<-time.After(web.Patience / 2)
			}
		}()
		h := c.listen()
		if last := h.last(); last.StatusCode != 400 || *last.Message != "The body did not come within 1m 2s, so the request was given up." {
			t.Errorf("%+v", h)
		}
		if waited := time.Since(began); waited < web.Longest(32<<10) || waited > web.Longest(32<<10)+time.Second {
			t.Errorf("waited %v", waited)
		}
		<-done
		w.checkSpools(t)
	})
}

func TestEveryAnswerIsSecured(t *testing.T) {
	w := newWorld(t)
	h := w.handler()
	for _, r := range []*http.Request{
		newRequest("GET", "/v2/user", ""), newRequest("GET", "/", ""), newRequest("OPTIONS", "/v2/user", ""), newRequest("DELETE", "/v2/user", ""),
		newRequest("GET", w.addBackup("PK"), ""), newRequest("GET", "/v2/openapi.json", ""), withToken("wrong", "192.0.2.1:1"),
	} {
		rec := do(t, h, r)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := rec.Header().Get(name); got != want {
				t.Errorf("%s %s: %s is %q", r.Method, r.URL.Path, name, got)
			}
		}
		for name := range rec.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: other origins are answered by %s", r.Method, r.URL.Path, name)
			}
		}
		if !strings.HasSuffix(rec.Header().Get("Cache-Control"), "no-store") {
			t.Errorf("%s %s: Cache-Control is %q", r.Method, r.URL.Path, rec.Header().Get("Cache-Control"))
		}
	}
}

// A body that is still coming when the server ends for a reason is refused with
// it; the client is told when to come again.
func TestBodyIsRefusedWhenTheServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		life, end := context.WithCancelCause(t.Context())
		conn := connectIn(t, w, life)
		sendText(conn, uploadHead+announced(30<<10)+uploadBody[:60])
		synctest.Wait()
		end(app.Errorf(app.Unavailable, "The server is being upgraded."))
		status, text := readAnswer(t, conn)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "The server is being upgraded.") {
			t.Errorf("status %d: %s", status, text)
		}
		_ = conn.Close()
		synctest.Wait()
		w.checkSpools(t)
	})
}
