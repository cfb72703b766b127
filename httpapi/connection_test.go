package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/web"
)

// pipes is a listener over in-memory connections, whose deadlines follow the
// virtual clock of synctest.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

// connect serves w on one connection and returns the client's end of it. The
// server is closed, and every connection with it, when the test ends.
func connect(t *testing.T, w *world) net.Conn {
	t.Helper()
	return connectIn(t, w, t.Context())
}

// connectIn is connect to a server whose BaseContext is life.
func connectIn(t *testing.T, w *world, life context.Context) net.Conn { //nolint:revive // t goes first
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: w.handler(), BaseContext: func(net.Listener) context.Context { return life }}
	ended := make(chan error)
	go func() { ended <- server.Serve(p) }()
	client, conn := net.Pipe()
	p.conns <- conn
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		_ = client.Close()
	})
	return client
}

// sendText writes text to the server; the pipe has no buffer, so it does that aside.
func sendText(conn net.Conn, text string) {
	go func() { _, _ = io.WriteString(conn, text) }()
}

const uploadHead = "POST /v2/upload HTTP/1.1\r\nHost: example.com\r\nApi-Token: " + goodToken +
	"\r\nContent-Type: multipart/form-data; boundary=b\r\n"

const uploadBody = "--b\r\nContent-Disposition: form-data; name=f; filename=a.zip\r\n\r\nPK content\r\n--b--\r\n"

func announced(n int) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n", n) }

func readAnswer(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestStalledUploadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := connect(t, w)
		began := time.Now()
		sendText(conn, uploadHead+announced(len(uploadBody))+uploadBody[:len(uploadBody)-20])
		status, text := readAnswer(t, conn)
		if status != http.StatusBadRequest || !strings.Contains(text, "No data came for 1m") {
			t.Errorf("status %d: %s", status, text)
		}
		if waited := time.Since(began); waited < web.Patience || waited > web.Patience+time.Second {
			t.Errorf("waited %v", waited)
		}
		if len(w.handed) > 0 {
			t.Error("half of a file was handed over")
		}
		w.checkSpools(t)
	})
}

func TestSlowUploadIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		conn := connect(t, w)
		go func() {
			_, _ = io.WriteString(conn, uploadHead+announced(len(uploadBody)))
			for i := range len(uploadBody) {
				<-time.After(50 * time.Second)
				_, _ = io.WriteString(conn, uploadBody[i:i+1])
			}
		}()
		if status, text := readAnswer(t, conn); status != http.StatusOK {
			t.Errorf("status %d: %s", status, text)
		}
		if w.spooled["spool-1"] != "PK content" {
			t.Errorf("spooled %q", w.spooled)
		}
	})
}

func TestLongWorkIsNotCutByTheDeadlineOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		w.before = func(ctx context.Context, _ string) {
			select {
			case <-time.After(10 * web.Patience):
			case <-ctx.Done():
				t.Error("the work was cancelled")
			}
		}
		conn := connect(t, w)
		sendText(conn, uploadHead+"Transfer-Encoding: chunked\r\n\r\n"+chunked(uploadBody))
		if status, text := readAnswer(t, conn); status != http.StatusOK {
			t.Errorf("status %d: %s", status, text)
		}
	})
}

func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(s), s) }

func TestHangUpWhileSendingDropsTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := connect(t, w)
		if _, err := io.WriteString(conn, uploadHead+announced(len(uploadBody))+uploadBody[:len(uploadBody)-20]); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		synctest.Wait()
		if len(w.handed) > 0 || w.called("Upload") > 0 {
			t.Error("half of a file was handed over")
		}
		w.checkSpools(t)
	})
}

func TestHangUpAfterSendingDoesNotStopTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		began, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		w.before = func(ctx context.Context, _ string) {
			close(began)
			<-release
			ended <- ctx.Err()
		}
		conn := connect(t, w)
		sendText(conn, uploadHead+announced(len(uploadBody))+uploadBody)
		<-began
		_ = conn.Close()
		synctest.Wait()
		close(release)
		if err := <-ended; err != nil {
			t.Errorf("the context of the work ended: %v", err)
		}
		synctest.Wait()
		if len(w.handed) != 1 || len(w.dropped) != 0 {
			t.Errorf("handed over %v, dropped %v", w.handed, w.dropped)
		}
	})
}

func TestStalledBodyThatNobodyReadsDoesNotHoldTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := connect(t, w)
		began := time.Now()
		sendText(conn, "PUT /v2/locale/en-US HTTP/1.1\r\nHost: example.com\r\nApi-Token: "+goodToken+"\r\n"+announced(100)+"{")
		if status, text := readAnswer(t, conn); status != http.StatusOK {
			t.Errorf("status %d: %s", status, text)
		}
		if waited := time.Since(began); waited > web.Patience+time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestClientThatTakesNothingLosesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := connect(t, w)
		request := "GET /v2/openapi.json HTTP/1.1\r\nHost: example.com\r\n\r\n"
		sendText(conn, strings.Repeat(request, 200)) // answers that nobody reads, one behind the other
		<-time.After(3 * web.Patience)
		text, err := io.ReadAll(conn)
		if err != nil || len(text) > 1<<20 {
			t.Errorf("%d bytes were still sent, %v", len(text), err)
		}
	})
}

func TestClientThatTakesNothingLosesItsDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logText = strings.NewReader(strings.Repeat("line\n", 1<<20))
		conn := connect(t, w)
		sendText(conn, "GET "+logPath(w, 20001)+" HTTP/1.1\r\nHost: example.com\r\n\r\n")
		<-time.After(web.Patience + time.Second)
		text, err := io.ReadAll(conn)
		if err != nil || len(text) > 1<<19 {
			t.Errorf("%d bytes were still sent, %v", len(text), err)
		}
	})
}

// Some clients send all they have before they listen; a refusal must reach
// those too, though most of the upload is still to come.
func TestRefusalReachesAClientThatSendsEverythingFirst(t *testing.T) {
	for name, request := range map[string]struct {
		text   string
		status int
	}{
		"no such application": {strings.Replace(uploadHead, "POST /v2/upload", "PUT /v2/app/nobody/commit", 1), http.StatusNotFound},
		"a wrong token":       {strings.Replace(uploadHead, goodToken, "wrong", 1), http.StatusUnauthorized},
	} {
		for how, length := range map[string]string{"announced": announced(32 << 20), "in chunks": "Transfer-Encoding: chunked\r\n\r\n2000000\r\n"} {
			server := httptest.NewServer(newWorld(t).handler())
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			part := make([]byte, 1<<20)
			_, err = io.WriteString(conn, request.text+length)
			for n := 0; n < 32 && err == nil; n++ {
				_, err = conn.Write(part)
			}
			if err == nil && how == "in chunks" {
				_, err = io.WriteString(conn, "\r\n0\r\n\r\n")
			}
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
			} else if status, _ := readAnswer(t, conn); status != request.status {
				t.Errorf("%s, %s: status %d, want %d", name, how, status, request.status)
			}
			_ = conn.Close()
			server.Close()
		}
	}
}

// One who was refused and sends no more is not waited for.
func TestLingeringEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, newWorld(t))
		began := time.Now()
		sendText(conn, strings.Replace(uploadHead, goodToken, "wrong", 1)+announced(1<<20)+uploadBody)
		if status, _ := readAnswer(t, conn); status != http.StatusUnauthorized || time.Since(began) > time.Second {
			t.Errorf("status %d after %v", status, time.Since(began))
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if took := time.Since(began); took < web.Lingering || took > web.Lingering+time.Second {
			t.Errorf("closed after %v, want %v", took, web.Lingering)
		}
	})
}
