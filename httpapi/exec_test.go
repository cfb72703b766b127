package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/web"
	"berth/web/terminal"
)

// program is a command of a session: it reads and writes until it returns its exit code.
type program func(e app.Exec, in io.Reader, out, errs io.Writer, sizes <-chan app.Size) int

// runs lets the sessions of a world run a program, as the host runs a command.
func (w *world) runs(p program) {
	w.exec = func(ctx context.Context, owner app.AccountID, id app.ID, e app.Exec, use func(context.Context, app.Streams)) (app.Shell, error) {
		if err := w.call("Exec", owner, id); err != nil {
			return app.Shell{}, err
		}
		in, typed := io.Pipe()
		printed, out := io.Pipe()
		complained, errs := io.Pipe()
		ended, sizes := make(chan struct{}), make(chan app.Size, 16)
		shell := app.Shell{Online: true}
		go func() {
			defer close(ended)
			shell.Exit.Code = p(e, in, out, errs, sizes)
			_ = in.Close()
			_ = out.Close()
			_ = errs.Close()
		}()
		kill := func() {
			_ = in.CloseWithError(io.ErrUnexpectedEOF)
			_ = typed.CloseWithError(io.ErrUnexpectedEOF)
			_ = printed.Close()
			_ = complained.Close()
		}
		defer context.AfterFunc(ctx, func() {
			if said, is := errors.AsType[*app.Error](context.Cause(ctx)); is {
				shell.Cut = said.Message
			}
			kill()
		})()
		s := app.Streams{Input: typed, Output: printed, Ended: ended}
		if e.TTY {
			s.Resize = func(to app.Size) error { sizes <- to; return nil }
		} else {
			s.Errors = complained
		}
		use(ctx, s)
		kill()
		<-ended
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sessions++
		return shell, nil
	}
}

// echo answers each line with itself, and ends with "exit".
func echo(e app.Exec, in io.Reader, out, errs io.Writer, sizes <-chan app.Size) int {
	lines := bufio.NewScanner(in)
	fmt.Fprintf(out, "%s %s %dx%d\n", e.Command, e.Term, e.Size.Cols, e.Size.Rows)
	for lines.Scan() {
		switch lines.Text() {
		case "exit":
			return 3
		case "size":
			fmt.Fprintln(out, <-sizes)
		case "error":
			fmt.Fprintln(errs, "wrong")
		default:
			fmt.Fprintln(out, lines.Text())
		}
	}
	fmt.Fprintln(out, "no more")
	return 0
}

// session reads what a server sends: the bytes of each stream, the last frame and the close.
type sessionHeard struct {
	out, errs string
	exit      *terminal.Exit
	refused   socketHeard
	code      websocket.StatusCode
}

func (c *talker) session(tty bool) sessionHeard {
	c.t.Helper()
	var h sessionHeard
	for {
		kind, data, err := c.conn.Read(context.Background())
		if err != nil {
			h.code = websocket.CloseStatus(err)
			return h
		}
		switch {
		case h.exit != nil:
			c.t.Errorf("a frame after the last: %q", data)
		case kind == websocket.MessageText:
			var last struct {
				terminal.ToClient
				socketHeard
			}
			if err := json.Unmarshal(data, &last); err != nil {
				c.t.Errorf("%s: %v", data, err)
			}
			h.exit, h.refused = last.Exit, last.socketHeard
		case tty:
			h.out += string(data)
		case data[0] == terminal.Stdout:
			h.out += string(data[1:])
		case data[0] == terminal.Stderr:
			h.errs += string(data[1:])
		default:
			c.t.Errorf("stream %d", data[0])
		}
	}
}

func (c *talker) types(text string) {
	c.t.Helper()
	if err := c.conn.Write(context.Background(), websocket.MessageBinary, []byte(text)); err != nil {
		c.t.Error(err)
	}
}

func TestSession(t *testing.T) {
	w, b := audited(t)
	w.runs(echo)
	c := talk(t, w, "/v2/ws/app/bot-one/exec?command=secret&term=vt100&cols=100&rows=30", nil)
	c.types("hello\nsi")
	c.types("ze\n")
	c.send([]byte(`{"resize":{"cols":132,"rows":43},"later":1}`))
	c.types("exit\n")
	h := c.session(true)
	if h.out != "secret vt100 100x30\nhello\n{132 43}\n" || h.exit == nil || *h.exit != (terminal.Exit{Code: 3}) || h.code != websocket.StatusNormalClosure {
		t.Errorf("%+v", h)
	}
	got := b.wait(t, 2)
	const from = `7 "ada" token 3 "laptop" for 7 from 127.0.0.1: `
	if len(got) != 2 || got[0] != from+`app.exec bot-one "Bot bot-one" "" 101 ""` ||
		got[1] != from+`app.exec.end bot-one "Bot bot-one" "seconds=0 code=3" 200 ""` {
		t.Errorf("recorded %q", got)
	}
}

func TestSessionWithoutATerminal(t *testing.T) {
	w := newWorld(t)
	w.runs(echo)
	c := talk(t, w, "/v2/ws/app/bot-one/exec?tty=false", nil)
	c.types("a\nerror\n" + strings.Repeat("x", 40_000) + "\n")
	c.send([]byte(`{"resize":{"cols":132,"rows":43}}`), []byte(`{"eof":true}`))
	h := c.session(false)
	want := " xterm-256color 80x24\na\n" + strings.Repeat("x", 40_000) + "\nno more\n"
	if h.out != want || h.errs != "wrong\n" || h.exit == nil || *h.exit != (terminal.Exit{}) {
		t.Errorf("%d bytes, %q, %+v", len(h.out), h.errs, h.exit)
	}
}

func TestSessionRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		query   string
		arrange func(*world)
		status  int
		says    string
	}{
		"of a member":   {"", func(w *world) { w.apps = nil; w.team.memberships = []app.Membership{{App: "bot-one"}} }, 403, "Only the owner"},
		"of a stranger": {"", func(w *world) { w.apps = nil }, 404, "no application"},
		"too many":      {"", failing("Exec", app.Unavailable, "your account has 4 sessions open"), 503, "4 sessions"},
		"no RAM":        {"", failing("Exec", app.Exhausted, "this host has 100 MB for applications"), 422, "100 MB"},
		"a bad size":    {"?cols=0", nil, 400, "from 1 to 65535"},
		"a large size":  {"?rows=65536", nil, 400, "from 1 to 65535"},
		"a bad tty":     {"?tty=perhaps", nil, 400, "true or false"},
		"a bad term":    {"?term=a%0aB=c", nil, 400, "such as xterm-256color"},
		"a long term":   {"?term=" + strings.Repeat("x", 65), nil, 400, "such as xterm-256color"},
		"a long line":   {"?command=" + strings.Repeat("x", maxCommand+1), nil, 400, "longer than the 8KB"},
		"malformed":     {"?command=%zz", nil, 400, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runs(echo)
			if tt.arrange != nil {
				tt.arrange(w)
			}
			h := talk(t, w, "/v2/ws/app/bot-one/exec"+tt.query, nil).session(true)
			if h.refused.StatusCode != tt.status || h.refused.Message == nil || !strings.Contains(*h.refused.Message, tt.says) || h.sent() {
				t.Errorf("%+v", h)
			}
		})
	}
}

func (h sessionHeard) sent() bool { return h.out+h.errs != "" || h.exit != nil }

// Whoever may not be there any more is out within web.StreamCheck; what the database
// cannot say at a moment ends nothing.
func TestSessionsEnd(t *testing.T) {
	quiet := func(_ app.Exec, in io.Reader, _, _ io.Writer, _ <-chan app.Size) int {
		_, _ = io.Copy(io.Discard, in)
		return 137
	}
	for name, tt := range map[string]struct {
		do    func(w *world, end context.CancelCauseFunc)
		after time.Duration // 0: at once
		says  string
	}{
		"token revoked":    {failNow("Authenticate", app.Unauthorized, "The API token is not valid."), web.StreamCheck, "not valid"},
		"account disabled": {failNow("Authenticate", app.Forbidden, "This account is disabled."), web.StreamCheck, "disabled"},
		"deleted":          {failNow("App", app.NotFound, "You have no application with this ID."), web.StreamCheck, "no application"},
		"database ill":     {failNow("Authenticate", app.Internal, "internal"), terminal.Idle, "for 30 minutes"},
		"idle":             {func(*world, context.CancelCauseFunc) {}, terminal.Idle, "for 30 minutes"},
		"shutdown": {func(_ *world, end context.CancelCauseFunc) {
			end(app.Errorf(app.Unavailable, "The server is shutting down."))
		}, 0, "shutting down"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.runs(quiet)
				life, end := context.WithCancelCause(t.Context())
				c := overPipeTo(t, w, life, "/v2/ws/app/bot-one/exec")
				synctest.Wait()
				began := time.Now()
				tt.do(w, end)
				h := c.session(true)
				took := time.Since(began)
				if h.exit == nil || !strings.Contains(h.exit.Reason, tt.says) || took > tt.after+web.StreamCheck {
					t.Errorf("after %v: %+v", took, h)
				}
			})
		})
	}
}

// A program that prints all the time keeps no seat for ever.
func TestSessionLastsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.runs(func(_ app.Exec, _ io.Reader, out, _ io.Writer, _ <-chan app.Size) int {
			for {
				time.Sleep(time.Minute)
				if _, err := fmt.Fprint(out, "."); err != nil {
					return 137
				}
			}
		})
		c := overPipeTo(t, w, t.Context(), "/v2/ws/app/bot-one/exec")
		began := time.Now()
		h := c.session(true)
		if took := time.Since(began); h.exit == nil || !strings.Contains(h.exit.Reason, "it lasted for 12 hours") || took > terminal.Longest+2*time.Minute {
			t.Errorf("after %v: %+v", took, h.exit)
		}
	})
}

// A client that takes nothing holds up the command, and no more than some buffers of the
// daemon; one that stays away has gone.
func TestSessionOfASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var wrote atomic.Int64
		w.runs(func(_ app.Exec, _ io.Reader, out, _ io.Writer, _ <-chan app.Size) int {
			for block := make([]byte, 1<<20); ; {
				n, err := out.Write(block)
				wrote.Add(int64(n))
				if err != nil {
					return 137
				}
			}
		})
		c := overPipeTo(t, w, t.Context(), "/v2/ws/app/bot-one/exec")
		synctest.Wait()
		if n := wrote.Load(); n > 1<<20 {
			t.Errorf("%d bytes went to a client that reads nothing", n)
		}
		began := time.Now()
		for w.ended() == 0 {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > web.Patience+10*time.Second {
			t.Errorf("it is given up after %v", took)
		}
		_ = c.conn.CloseNow()
	})
}

// A command that does not read what is typed is no reason to end the session: its pings
// cannot be answered meanwhile.
func TestSessionWithUnreadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.runs(func(_ app.Exec, in io.Reader, out, _ io.Writer, _ <-chan app.Size) int {
			time.Sleep(10 * time.Minute)
			n, _ := io.CopyN(io.Discard, in, 100_000)
			fmt.Fprint(out, n)
			return 0
		})
		c := overPipeTo(t, w, t.Context(), "/v2/ws/app/bot-one/exec")
		go c.types(strings.Repeat("x", 100_000))
		if h := c.session(true); h.out != "100000" || h.exit == nil || *h.exit != (terminal.Exit{}) {
			t.Errorf("%+v", h)
		}
	})
}

func TestSessionOfAClientThatGoes(t *testing.T) {
	for name, leave := range map[string]func(*talker){
		"closes":    func(c *talker) { _ = c.conn.Close(websocket.StatusNormalClosure, "") },
		"vanishes":  func(c *talker) { _ = c.conn.CloseNow() },
		"nonsense":  func(c *talker) { c.send([]byte("{")) },
		"too much":  func(c *talker) { c.send([]byte(`{"resize":null,"x":"` + strings.Repeat("x", 5000) + `"}`)) },
		"no answer": func(*talker) {}, // to the pings
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.runs(echo)
				c := overPipeTo(t, w, t.Context(), "/v2/ws/app/bot-one/exec")
				if _, _, err := c.conn.Read(t.Context()); err != nil {
					t.Fatal(err)
				}
				leave(c)
				began := time.Now()
				if name == "nonsense" || name == "too much" {
					if h := c.session(true); h.exit == nil || !strings.Contains(h.exit.Reason, "no JSON") {
						t.Errorf("%+v", h)
					}
				}
				for w.ended() == 0 && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
				}
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("it goes on for %v", took)
				}
				_ = c.conn.CloseNow()
			})
		})
	}
}

func failNow(method string, kind app.Kind, says string) func(*world, context.CancelCauseFunc) {
	return func(w *world, _ context.CancelCauseFunc) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fail[method] = &app.Error{Kind: kind, Message: app.Words(says)}
	}
}

// ended is how many sessions have ended.
func (w *world) ended() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions
}

// A page of another origin opens no session with what a browser has of the person.
func TestSessionOfAnotherOrigin(t *testing.T) {
	w := newWorld(t)
	w.runs(echo)
	for origin, status := range map[string]int{"https://evil.example": 403, "null": 403, "http://example.com": 101} {
		r := newRequest("GET", "http://example.com/v2/ws/app/bot-one/exec", "")
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": origin,
		} {
			r.Header.Set(name, value)
		}
		if refused := handshake(&call{Call: web.Call{Request: r}}, ""); (refused == nil) != (status == http.StatusSwitchingProtocols) {
			t.Errorf("%s: %+v", origin, refused)
		}
	}
}
