package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/httpapi/socket"
	"berth/web"
)

const (
	statusUnderWay = http.StatusProcessing // of a frame that is not the last

	tellPace  = 200 * time.Millisecond // between two looks at what there is to tell
	placePace = 2 * time.Second        // between two looks at the queue
	pingPace  = 30 * time.Second
	lastWords = 5 * time.Second // for a frame while the daemon stops
	maxLog    = 16 << 10        // bytes of output in one frame
)

// socketAnswer is a frame to the client.
type socketAnswer struct {
	Status     string         `json:"status"`
	StatusCode int            `json:"statusCode"` // 102 while it goes on
	Message    nullable       `json:"message"`
	Progress   socketProgress `json:"progress"`
	App        *socketApp     `json:"app,omitempty"`
	Logs       string         `json:"logs,omitempty"`
	RequestID  string         `json:"requestId,omitempty"` // of an error
	refusal    string         // in English, for the audit log
}

// socketApp is what the extension of VS Code puts into its list after an upload,
// without asking again: all that /vscode tells of an application, and what the
// answer to a request has besides.
type socketApp struct {
	vscodeApp
	AddedAtTimestamp int64 `json:"addedAtTimestamp"` // milliseconds
}

type socketProgress struct {
	Bar int    `json:"bar"` // percent of the upload that has come
	Log string `json:"log"` // what happened since the last frame, in lines
}

// nullable is a text that is null when it is empty: clients show any other.
type nullable string

// MarshalJSON implements json.Marshaler.
func (n nullable) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("null"), nil
	}
	return encode(string(n)), nil
}

// conversation is one open WebSocket.
type conversation struct {
	s    *server
	c    *call
	x    exchange
	conn *websocket.Conn
	life context.Context // ends when the daemon is about to
	wake chan struct{}
	work sync.WaitGroup

	sending sync.Mutex // held while a frame is sent
	over    bool       // the last one was; or the client has gone
	told    int        // the bar of the last one

	mu        sync.Mutex
	receiving bool // the upload; meanwhile giveUp may end the conversation
	gaveUp    bool // it did
	bar       int
	said      strings.Builder // not yet told
	build     app.Follower    // nil until there is one
	waits     app.ID          // the application whose build waits
	place     int             // its number in the queue, as told
}

// open accepts a handshake that was checked, or returns nil.
func (s *server) open(c *call, w http.ResponseWriter, x exchange) *conversation {
	conn, err := websocket.Accept(w, c.Request, &websocket.AcceptOptions{InsecureSkipVerify: true}) // handshake has looked
	if err != nil {
		c.Cause = err
		return nil
	}
	conn.SetReadLimit(-1) // frame has a limit, and says so before the end
	return &conversation{s: s, c: c, x: x, conn: conn, life: c.Request.Context(), wake: make(chan struct{}, 1)}
}

// close waits for all that belongs to the conversation.
func (v *conversation) close() {
	_ = v.conn.CloseNow()
	v.work.Wait()
	if v.build != nil {
		v.build.Close()
	}
}

// refuse tells err to a client that speaks WebSocket and ends.
func (s *server) refuse(c *call, w http.ResponseWriter, err error) {
	if v := s.open(c, w, exchange{}); v != nil {
		defer v.close()
		v.end(v.failure(err), false)
	}
}

// converse takes an upload, deploys it and tells how that goes.
func (s *server) converse(c *call, w http.ResponseWriter, x exchange) {
	v := s.open(c, w, x)
	if v == nil {
		return
	}
	defer v.close()
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { v.tell(done) })
	quiet := sync.OnceFunc(func() {
		close(done)
		telling.Wait()
		v.flush()
	})
	defer quiet() // also after a panic
	file, err := v.receive()
	if err != nil {
		quiet()
		if !errors.Is(err, errGaveUp) {
			v.end(v.failure(err), false)
		}
		return
	}
	v.conn.CloseRead(context.Background()) // answers pings; the client has nothing more to say
	v.work.Go(func() { v.ping(done) })
	// The file is here; whether the client waits for the answer changes nothing.
	answer, err := x.deploy(app.WithProgress(context.WithoutCancel(v.life), v.progress), file)
	quiet()
	if err != nil {
		v.end(v.failure(err), true)
		return
	}
	answer.Status, answer.StatusCode = statusOK, http.StatusOK
	v.end(answer, true)
}

// receive spools what the client sends. A client that sends nothing is given
// up, and so are all when the daemon stops; both end the conversation at once,
// for a read that was called off would take the connection with it.
func (v *conversation) receive() (string, error) {
	v.receiving = true
	watch := time.AfterFunc(web.Patience, func() {
		v.giveUp(app.Errorf(app.Invalid, "No data came for %s, so the upload was given up.", elapsed(web.Patience)))
	})
	defer watch.Stop()
	slow := time.AfterFunc(web.Longest(v.s.MaxSocket), func() { v.giveUp(&app.Error{Kind: app.Invalid, Message: tooSlow(v.s.MaxSocket)}) })
	defer slow.Stop()
	stop := context.AfterFunc(v.life, func() {
		why := web.LastWord(v.life)
		if why == nil {
			why = app.Errorf(app.Unavailable, "The server is shutting down. Upload it again in a minute.")
		}
		v.giveUp(why)
	})
	defer stop()
	source := &web.Witness{Reader: &socket.Chunks{
		Limit:    v.s.MaxSocket,
		TooLarge: app.Errorf(app.TooLarge, "The upload is larger than the %s that are allowed.", size(v.s.MaxSocket)),
		Next: func() (io.Reader, error) {
			kind, r, err := v.conn.Reader(context.Background())
			if err != nil { // may match io.EOF, as the end of an upload does
				return nil, lost(err)
			}
			if kind != websocket.MessageText {
				err = app.Errorf(app.Invalid, "Send the upload in text frames, as JSON.")
			}
			return &watched{r, watch}, err
		},
		Came: func(percent int) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.bar = percent
			v.nudge()
		},
	}}
	file, err := v.s.Deployments.Spool(context.WithoutCancel(v.life), source)
	if cut := v.cut(source.Err); cut != nil {
		if file != "" {
			v.s.Deployments.DropSpool(file)
		}
		return "", cut // goes before what the deployer made of it
	}
	return file, err
}

// errGaveUp tells that giveUp has ended the conversation.
var errGaveUp = errors.New("the conversation was given up")

// cut ends the receiving, which ended with err: it returns what kept the upload
// from coming whole, nil when it did.
func (v *conversation) cut(err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.receiving = false
	var known *app.Error
	switch {
	case v.gaveUp:
		return errGaveUp
	case err == nil || errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &known):
		return err
	}
	return lost(err)
}

// lost is the error of a connection that ended too early.
func lost(err error) error {
	return &app.Error{Kind: app.Invalid, Err: err, Message: app.Textf("The connection was closed before the upload was complete.")}
}

// watched puts off the watch at every read.
type watched struct {
	r     io.Reader
	watch *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	w.watch.Reset(web.Patience)
	return w.r.Read(p)
}

// giveUp ends the conversation unless the upload has come.
func (v *conversation) giveUp(err error) {
	v.mu.Lock()
	if !v.receiving {
		v.mu.Unlock()
		return
	}
	v.receiving, v.gaveUp = false, true
	v.work.Add(1)
	defer v.work.Done()
	v.mu.Unlock()
	v.end(v.failure(err), false)
}

// failure is the last frame for an error.
func (v *conversation) failure(err error) socketAnswer {
	status, message, logs := v.s.explain(v.c, err)
	return socketAnswer{
		Status: statusError, StatusCode: status, Message: nullable(v.c.tell(message)), Logs: logs, RequestID: v.c.RequestID,
		refusal: message.String(),
	}
}

// end sends the last frame and closes. Only the first call does. deployed tells
// an error of the upload's own from one of the conversation.
func (v *conversation) end(a socketAnswer, deployed bool) {
	v.mu.Lock()
	a.Progress.Bar = v.bar
	v.mu.Unlock()
	v.sending.Lock()
	v.c.concluded(a.StatusCode, a.refusal)
	if v.over {
		v.sending.Unlock()
		return
	}
	v.write(a)
	v.over = true
	v.sending.Unlock()
	code, reason := websocket.StatusNormalClosure, ""
	if a.Status != statusOK {
		// Clients take a close without a reason for the end of a success.
		reason = fmt.Sprintf(`{"status":"error","statusCode":%d}`, a.StatusCode)
		if !deployed {
			code = closeCode(a.StatusCode)
		}
	}
	_ = v.conn.Close(code, reason) // a client that has gone is told nothing
}

// closeCode is what a conversation is closed with that came to no deployment. A bad
// token is no case of its own: the extension of VS Code (2.29) takes the code 3000, which
// it has for that, as the refusal of a connection that it has open by then, and its task
// waits for ever. It has a sentence for each of these.
func closeCode(status int) websocket.StatusCode {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return websocket.StatusMessageTooBig
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return websocket.StatusTryAgainLater
	case http.StatusInternalServerError:
		return websocket.StatusInternalError
	}
	return websocket.StatusPolicyViolation
}

// write sends a frame; a client that does not take it in time has gone. The
// caller holds sending.
func (v *conversation) write(a socketAnswer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.life), web.Patience)
	defer cancel()
	defer context.AfterFunc(v.life, func() {
		select {
		case <-time.After(lastWords):
			cancel()
		case <-ctx.Done():
		}
	})()
	v.told = a.Progress.Bar
	if err := v.conn.Write(ctx, websocket.MessageText, encode(a)); err != nil {
		v.over = true
	}
}

// ping keeps whatever is between here and the client from closing a connection
// on which a long build prints nothing, and finds out that the client has gone.
func (v *conversation) ping(done <-chan struct{}) {
	ticker := time.NewTicker(pingPace)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.life), web.Patience)
		err := v.conn.Ping(ctx)
		cancel()
		if err != nil {
			_ = v.conn.CloseNow()
			return
		}
	}
}
