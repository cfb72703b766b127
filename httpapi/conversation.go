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

	pingPace  = 30 * time.Second
	lastWords = 5 * time.Second // for a frame while the daemon stops
)

// socketAnswer is a frame to the client.
type socketAnswer struct {
	Status     string         `json:"status"`
	StatusCode int            `json:"statusCode"` // 102 while it goes on
	Message    *string        `json:"message"`    // null for none: clients show any other
	Progress   socketProgress `json:"progress"`
	App        object         `json:"app,omitempty"`
	Site       object         `json:"site,omitempty"`
	Logs       string         `json:"logs,omitempty"`
	RequestID  string         `json:"requestId,omitempty"` // of an error
	refusal    string         // in English, for the audit log
}

type socketProgress struct {
	Bar int    `json:"bar"` // percent of the upload that has come
	Log string `json:"log"` // what happened since the last frame, in lines
}

// conversation is one open WebSocket.
type conversation struct {
	*sockets
	c    *call
	conn *websocket.Conn
	life context.Context // ends when the daemon is about to
	work sync.WaitGroup

	reporter *reporter

	sending sync.Mutex // held while a frame is sent
	over    bool       // the last one was; or the client has gone
	sentBar int        // of the last one

	mu        sync.Mutex
	receiving bool // the upload; meanwhile giveUp may end the conversation
	gaveUp    bool // it did
	bar       int
}

// newConversation accepts a handshake that was checked, or returns nil.
func newConversation(s *sockets, c *call, w http.ResponseWriter) *conversation {
	conn, err := websocket.Accept(w, c.Request, &websocket.AcceptOptions{InsecureSkipVerify: true}) // handshake has checked it
	if err != nil {
		c.Cause = err
		return nil
	}
	conn.SetReadLimit(-1) // frame has a limit, and says so before the end
	v := &conversation{sockets: s, c: c, conn: conn, life: c.Request.Context()}
	v.reporter = newReporter(c, s.deployments, v.tell)
	return v
}

// close waits for all that belongs to the conversation.
func (v *conversation) close() {
	_ = v.conn.CloseNow()
	v.work.Wait()
}

// run receives an upload, deploys it and reports how that goes.
func (v *conversation) run(do deploy) {
	quiet := v.reporter.begin()
	defer quiet() // also after a panic
	file, err := v.receive()
	if err != nil {
		quiet()
		if !errors.Is(err, errGaveUp) {
			v.finish(v.failure(err), false)
		}
		return
	}
	v.conn.CloseRead(context.Background()) // answers pings; the client has nothing more to say
	v.work.Go(v.ping)
	// The file is here; whether the client waits for the answer changes nothing.
	answer, err := do(app.WithProgress(context.WithoutCancel(v.life), v.reporter.progress), file)
	quiet()
	if err != nil {
		v.finish(v.failure(err), true)
		return
	}
	answer.Status, answer.StatusCode = statusOK, http.StatusOK
	v.finish(answer, true)
}

// receive spools what the client sends. A client that sends nothing is given
// up, and so are all when the daemon stops; both end the conversation at once,
// for a read that was cancelled would take the connection with it.
func (v *conversation) receive() (string, error) {
	v.receiving = true
	watch := time.AfterFunc(web.Patience, func() {
		v.giveUp(app.Errorf(app.Invalid, "No data came for %s, so the upload was given up.", elapsed(web.Patience)))
	})
	defer watch.Stop()
	slow := time.AfterFunc(web.Longest(v.max), func() { v.giveUp(&app.Error{Kind: app.Invalid, Message: tooSlow(v.max)}) })
	defer slow.Stop()
	stop := context.AfterFunc(v.life, func() {
		why := web.LastWord(v.life)
		if why == nil {
			why = app.Errorf(app.Unavailable, "The server is shutting down. Upload it again in a minute.")
		}
		v.giveUp(why)
	})
	defer stop()
	source := &web.ErrReader{Reader: &socket.Chunks{
		Limit:    v.max,
		TooLarge: app.Errorf(app.TooLarge, "The upload is larger than the %s that are allowed.", size(v.max)),
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
			v.reporter.nudge()
		},
	}}
	file, err := v.deployments.Spool(context.WithoutCancel(v.life), source)
	if cut := v.cut(source.Err); cut != nil {
		if file != "" {
			v.deployments.DropSpool(file)
		}
		return "", cut // goes before what the deployer made of it
	}
	return file, err
}

// errGaveUp is the error of a conversation that giveUp has ended.
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
	v.finish(v.failure(err), false)
}

// failure is the last frame for an error.
func (v *conversation) failure(err error) socketAnswer {
	status, message, logs := v.c.explain(err)
	return socketAnswer{
		Status: statusError, StatusCode: status, Message: new(v.c.translate(message)), Logs: logs, RequestID: v.c.RequestID,
		refusal: message.String(),
	}
}

// finish sends the last frame and closes. Only the first call does. deployed marks
// an error of the deployment, not of the conversation.
func (v *conversation) finish(a socketAnswer, deployed bool) {
	v.mu.Lock()
	a.Progress.Bar = v.bar
	v.mu.Unlock()
	v.sending.Lock()
	v.c.audit.conclude(a.StatusCode, a.refusal)
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
	_ = v.conn.Close(code, reason) // a client that has gone reads nothing
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
	v.sentBar = a.Progress.Bar
	if err := v.conn.Write(ctx, websocket.MessageText, encode(a)); err != nil {
		v.over = true
	}
}

// ping keeps whatever is between here and the client from closing a connection
// on which a long build prints nothing, and finds out that the client has gone.
func (v *conversation) ping() {
	ticker := time.NewTicker(pingPace)
	defer ticker.Stop()
	for {
		select {
		case <-v.reporter.done:
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

// tell sends what is new, in frames of a bounded size.
func (v *conversation) tell(all []news) {
	v.sending.Lock()
	defer v.sending.Unlock()
	v.mu.Lock()
	bar := v.bar
	v.mu.Unlock()
	var text strings.Builder
	for _, n := range all {
		text.WriteString(v.c.sentence(n) + n.output)
	}
	for log := text.String(); !v.over && (log != "" || bar != v.sentBar); {
		var first string
		first, log = cutOutput(log)
		v.write(socketAnswer{Status: statusOK, StatusCode: statusUnderWay, Progress: socketProgress{Bar: bar, Log: first}})
	}
}

// sentence says what phase a deployment has reached, "" for one that is known.
func (c *call) sentence(n news) string {
	if !n.reached {
		return ""
	}
	switch n.phase {
	case app.Checked:
		return c.say("The upload is checked.") + "\n"
	case app.Queued:
		return c.say("Waiting to be built: number %d in the queue.", n.place) + "\n"
	case app.Building:
		return c.say("Building.") + "\n"
	case app.Launching:
		return c.say("Starting.") + "\n"
	}
	return ""
}
