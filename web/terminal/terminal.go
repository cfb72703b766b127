package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/web"
)

const (
	// Idle is how long a session may be silent, both ways.
	Idle = 30 * time.Minute
	// Longest is how long a session lasts at most.
	Longest = 12 * time.Hour

	bufferSize = 32 << 10
	maxControl = 4 << 10 // bytes of a text frame

	pingPace  = 30 * time.Second
	lastWords = 5 * time.Second // for a frame once the session must end
)

// The first byte of a frame to the client, of a command without a terminal.
const (
	Stdout = 1
	Stderr = 2
)

// ToServer is a text frame of the client.
type ToServer struct {
	Resize *app.Size `json:"resize,omitempty"`
	EOF    bool      `json:"eof,omitempty"` // the input has ended
}

// ToClient is a text frame of the server.
type ToClient struct {
	Exit *Exit `json:"exit,omitempty"`
}

// Exit is how a command ended.
type Exit struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal"`
	Reason string `json:"reason"` // why berth or the kernel ended it; "" when it ended by itself
}

// Session is one session that is about to begin.
type Session struct {
	Owner app.AccountID // of the application
	App   app.ID
	Exec  app.Exec
	Run   app.ExecService
	// MayStill returns an error of kind Unauthorized, Forbidden or NotFound when the
	// person may not be there any more, whose sentence the person gets. It is called every
	// web.StreamCheck.
	MayStill func(context.Context) error
	// Opened is called once the command runs.
	Opened func()
	// Translate puts a sentence into the language of the person.
	Translate func(app.Text) string
}

// Serve runs the command with the connection as its input and output, and blocks until the
// command has ended and the client knows, or has gone. life is the daemon's: when it ends,
// the session does. An error is that of a command that could not be started: then nothing
// was sent, and the caller says why. In every case the caller closes the connection.
func (s Session) Serve(life context.Context, conn *websocket.Conn) (app.Shell, error) {
	conn.SetReadLimit(-1) // what comes is never held as a whole
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	l := &line{Session: s, conn: conn, end: cancel, began: time.Now()}
	l.touch()
	defer func() {
		if l.opened {
			_ = conn.CloseNow() // which ends the reading
			l.reading.Wait()
		}
	}()
	shell, err := s.Run(ctx, s.Owner, s.App, s.Exec, l.use)
	if err != nil {
		return shell, err
	}
	text, err := json.Marshal(ToClient{&Exit{shell.Exit.Code, shell.Exit.Signal, s.reason(shell)}})
	if err == nil && l.write(ctx, websocket.MessageText, text) {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	return shell, nil
}

// reason says why a command ended that did not end by itself.
func (s Session) reason(shell app.Shell) string {
	switch {
	case !shell.Cut.IsZero():
		return s.Translate(shell.Cut)
	case shell.Exit.OOM:
		return s.Translate(app.Textf("a process was killed: the application needed more than %d MB of RAM", shell.Exit.LimitMB))
	case shell.Exit.HostOOM:
		return s.Translate(app.Textf("a process was killed: this host ran short of memory; try again in a minute"))
	}
	return ""
}

// line is a session under way.
type line struct {
	Session
	conn    *websocket.Conn
	end     context.CancelCauseFunc // with an *app.Error that says why
	began   time.Time
	opened  bool         // the command has run
	active  atomic.Int64 // when a byte went by, since began
	typed   atomic.Int64 // when the client sent one
	stalled atomic.Bool  // the command does not take its input, so nothing more is read
	reading sync.WaitGroup
}

// touch notes that a byte went by.
func (l *line) touch() { l.active.Store(int64(time.Since(l.began))) }

// heard notes that the client has sent something.
func (l *line) heard() {
	l.touch()
	l.typed.Store(l.active.Load())
}

// use brings the bytes to and fro until the command has ended and all its output is sent,
// the client has gone, or ctx ends.
func (l *line) use(ctx context.Context, s app.Streams) {
	l.opened = true
	l.Opened()
	ctx, done := context.WithCancel(ctx)
	var watching, output sync.WaitGroup
	defer watching.Wait()
	defer done()
	l.reading.Go(func() { l.end(l.input(s)) }) // nobody can type any more
	watching.Go(func() { l.watch(ctx) })
	watching.Go(func() { l.ping(ctx) })
	for n, r := range []io.Reader{s.Output, s.Errors} {
		if r == nil {
			continue
		}
		var mark []byte
		if !l.Exec.TTY {
			mark = []byte{byte(n) + Stdout}
		}
		output.Go(func() {
			if !l.output(ctx, r, mark) {
				l.end(errGone)
			}
		})
	}
	sent := make(chan struct{})
	go func() {
		output.Wait()
		close(sent)
	}()
	select {
	case <-sent:
		select {
		case <-s.Ended:
		case <-ctx.Done():
		}
	case <-ctx.Done():
		l.linger(s, sent)
	}
}

// linger lets the last output be sent of a command that is ended: Run does that when the
// context ends which it was given.
func (l *line) linger(s app.Streams, sent <-chan struct{}) {
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case <-s.Ended:
	case <-late.C:
	}
	select {
	case <-sent:
	case <-late.C:
		_ = l.conn.CloseNow() // ends a write to who reads nothing
		<-sent
	}
}

// output sends a stream, behind a mark in each frame. It returns false when the client has
// gone.
func (l *line) output(ctx context.Context, from io.Reader, mark []byte) bool {
	buf := make([]byte, len(mark)+bufferSize)
	copy(buf, mark)
	for {
		n, err := from.Read(buf[len(mark):])
		if n > 0 {
			l.touch()
			if !l.write(ctx, websocket.MessageBinary, buf[:len(mark)+n]) {
				return false
			}
		}
		if err != nil {
			return true
		}
	}
}

// write sends a frame, and reports whether the client took it in time.
func (l *line) write(ctx context.Context, kind websocket.MessageType, data []byte) bool {
	limited, cancel := patiently(ctx)
	defer cancel()
	return l.conn.Write(limited, kind, data) == nil
}

// patiently is a context for one frame, which ends a moment after ctx: a frame that is cut
// off ends the connection, before the last one can say why.
func patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), web.Patience)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(lastWords):
			cancel()
		case <-limited.Done():
		}
	})
	return limited, func() {
		stop()
		cancel()
	}
}

// errGone ends a session whose client has gone. It is no *app.Error: nobody reads why.
var errGone = errors.New("the client has gone")

// input brings the client's frames to the command, until the connection ends. It returns
// why the session ends then.
func (l *line) input(s app.Streams) error {
	buf := make([]byte, bufferSize)
	for {
		kind, r, err := l.conn.Reader(context.Background()) // the end of a context would end the connection
		if err != nil {
			return errGone
		}
		l.heard()
		if kind == websocket.MessageText {
			if err := l.control(r, s); err != nil {
				return err
			}
			continue
		}
		if _, err := io.CopyBuffer(typed{l, s.Input}, onlyReader{r}, buf); err != nil {
			return errGone
		}
	}
}

// onlyReader hides what else a reader can do, so that a copy uses its buffer.
type onlyReader struct{ io.Reader }

// typed is the input of a command. What a command does not take is dropped: it has ended,
// or closed its input, and its client may still have much to send.
type typed struct {
	l  *line
	to io.Writer
}

// Write implements io.Writer.
func (t typed) Write(p []byte) (int, error) {
	t.l.stalled.Store(true)
	_, _ = t.to.Write(p)
	t.l.heard()
	t.l.stalled.Store(false)
	return len(p), nil
}

// control does what a text frame asks for.
func (l *line) control(r io.Reader, s app.Streams) error {
	text, err := io.ReadAll(io.LimitReader(r, maxControl+1))
	if err != nil {
		return errGone
	}
	var asked ToServer
	if len(text) > maxControl || json.Unmarshal(text, &asked) != nil {
		return app.Errorf(app.Invalid, "the client sent a text frame that is no JSON of a session, or too long")
	}
	if asked.Resize != nil && s.Resize != nil {
		_ = s.Resize(*asked.Resize) // of a command that has just ended
	}
	if asked.EOF {
		_ = s.Input.Close() // the same
	}
	return nil
}

// watch ends the session of who may not be there any more, and one that lasts too long.
func (l *line) watch(ctx context.Context) {
	ticker := time.NewTicker(web.StreamCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := l.MayStill(ctx)
		age := time.Since(l.began)
		switch kind := app.KindOf(err); {
		case ctx.Err() != nil:
			return
		case err != nil && (kind == app.Unauthorized || kind == app.Forbidden || kind == app.NotFound):
			l.end(err)
		case age >= Longest:
			l.end(app.Errorf(app.Limited, "it lasted for %d hours, the most it may", int(Longest/time.Hour)))
		case age-time.Duration(l.active.Load()) >= Idle:
			l.end(app.Errorf(app.Limited, "nothing was typed or printed for %d minutes", int(Idle/time.Minute)))
		}
	}
}

// ping keeps whatever is between here and the client from closing a connection on which
// nobody types, and finds out that the client has gone. A client that is about to send
// much may not be able to answer: it gets a frame that asks for no answer.
func (l *line) ping(ctx context.Context) {
	ticker := time.NewTicker(pingPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		there := false
		if l.stalled.Load() || time.Since(l.began)-time.Duration(l.typed.Load()) < pingPace {
			there = l.write(ctx, websocket.MessageText, []byte("{}"))
		} else {
			limited, cancel := patiently(ctx)
			there = l.conn.Ping(limited) == nil
			cancel()
		}
		if !there {
			l.end(errGone)
			return
		}
	}
}
