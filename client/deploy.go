package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Upload is a ZIP that is sent.
type Upload struct {
	Name string // of the file, as the server may show it
	Size int64  // bytes
	// Open opens the ZIP; it is called again when the server asks to wait and to send again.
	Open func() (io.ReadCloser, error)

	App   *App // whose code it replaces; nil for a new application
	Exact bool // it is all of the code: what an earlier deploy brought and this one has not is removed

	// Stopped keeps a new application offline until it is started. A server that is no berth, or an
	// older one, starts it all the same.
	Stopped bool

	// Restore makes the files of App those of the ZIP, and no others, with its environment
	// variables if Env is true. Backup is one that is on the server, in place of the ZIP.
	Restore, Env bool
	Backup       *Backup
	// Snapshot is the name of a nightly snapshot of App, in place of the ZIP. Without Restore
	// it becomes a new application, and App stays as it is.
	Snapshot string

	// Sent hears how many bytes of the ZIP have gone out in all; Each hears how the deploy
	// goes. Both may be nil. The error of Each ends Deploy, not the deploy.
	Sent func(bytes int64)
	Each func(Progress) error
}

// Progress is how far a deploy has come.
type Progress struct {
	ID       string `json:"id"`       // of the application; "" while it has none
	Phase    string `json:"phase"`    // checked, queued, building or launching
	Position int    `json:"position"` // in the queue of builds while queued; 1 is next
	Log      string `json:"log"`      // whole lines that the build has printed, others' bytes
}

// Deployed is what came of a deploy.
type Deployed struct {
	ID      string   // of the application
	Name    string   // of a new one
	Message string   // the server's sentence
	Notices []string // what the server did otherwise than asked, a sentence each; Logs begins with them
	Logs    string   // output of the build or the program, others' bytes
}

// ErrUnknown means that a whole upload was sent, and the connection ended without an answer:
// the deploy may go on.
var ErrUnknown = errors.New("the answer to a whole upload was lost")

// Deploy sends a ZIP, for a new application or in place of an application's code, and blocks
// until the deploy is done, failed or refused. Its memory does not grow with the ZIP. A server
// that is busy it waits for, as told; it sends a ZIP a second time only if the server has
// refused the first one. The error is as that of Call, or ErrUnknown.
func (c *Client) Deploy(ctx context.Context, u Upload) (Deployed, error) {
	for waits := 0; ; waits++ {
		d, err := c.deployOnce(ctx, u)
		refused, is := errors.AsType[*Error](err)
		if !is || !busy(refused) || waits >= maxWaits {
			return d, err
		}
		c.notice("%s Trying again in %d s.", sentence(refused.Message), int(refused.Wait/time.Second))
		if err := c.Wait(ctx, refused.Wait); err != nil {
			return Deployed{}, err
		}
	}
}

func (c *Client) deployOnce(ctx context.Context, u Upload) (Deployed, error) {
	method, path, err := u.operation()
	if err != nil {
		return Deployed{}, err
	}
	head, tail, kind := form(u.Name)
	zip := io.NopCloser(strings.NewReader(""))
	if u.there() {
		tail, kind = "", "application/json"
		head, err = restoring(u)
	} else {
		zip, err = u.Open()
	}
	if err != nil {
		return Deployed{}, err
	}
	defer zip.Close()
	sent := &sending{r: io.LimitReader(zip, u.Size), size: u.Size, heard: u.Sent}
	body := io.MultiReader(strings.NewReader(head), sent, strings.NewReader(tail))
	// A server refuses by the length, before a byte of the ZIP is sent.
	header := http.Header{"Accept": {"text/event-stream, application/json"}, "Expect": {"100-continue"}}
	resp, err := c.Send(ctx, method, path, kind, io.NopCloser(body), int64(len(head))+u.Size+int64(len(tail)), header)
	whole := sent.whole()
	if err != nil {
		return Deployed{}, c.afterSending(err, whole, sent.sum.Load())
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // of another server of this API
		var a answer
		err := c.read(resp, &a)
		return a.deployed(u), c.afterSending(err, whole, u.Size)
	}
	s := c.Events(resp, "")
	defer s.Close()
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			err = c.unreached(lost{io.ErrUnexpectedEOF})
		}
		if err != nil {
			return Deployed{}, c.afterSending(err, true, u.Size)
		}
		if e.Name == "done" {
			return c.done(e.Data, u)
		}
		var p Progress
		if e.Name != "progress" || json.Unmarshal(e.Data, &p) != nil || u.Each == nil {
			continue
		}
		if err := u.Each(p); err != nil {
			return Deployed{ID: p.ID}, err
		}
	}
}

// there reports whether what is to be deployed is on the server.
func (u Upload) there() bool { return u.Backup != nil || u.Snapshot != "" }

// operation is what an upload asks for.
func (u Upload) operation() (method, path string, err error) {
	switch {
	case u.Restore:
		path, err = u.App.ownPath("restore")
		if u.Env && !u.there() {
			path += "?env=true"
		}
		return http.MethodPost, path, err
	case u.Snapshot != "":
		path, err = u.App.ownPath("copy")
		return http.MethodPost, path, err
	case u.App == nil && u.Stopped:
		return http.MethodPost, "/v2/upload?stopped=true", nil
	case u.App == nil:
		return http.MethodPost, "/v2/upload", nil
	case u.Exact:
		return http.MethodPut, u.App.Path("commit") + "?exact=true", nil
	}
	return http.MethodPut, u.App.Path("commit"), nil
}

// answer is what a server says about a deploy.
type answer struct {
	Status     string
	StatusCode int
	Message    string
	Notices    []string
	Logs       string
	RequestID  string
	App        struct{ ID, Name string }
}

func (a answer) deployed(u Upload) Deployed {
	d := Deployed{ID: a.App.ID, Name: a.App.Name, Message: a.Message, Notices: a.Notices, Logs: a.Logs}
	if u.App != nil && (u.Restore || u.Snapshot == "") {
		d.ID = u.App.ID
	}
	return d
}

// done is the end of a deploy.
func (c *Client) done(data []byte, u Upload) (Deployed, error) {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return Deployed{}, failed(ErrNotBerth, err, "cannot use %s: its answer has another form than berth's: %v", c.origin(), err)
	}
	if a.Status == "error" || a.StatusCode >= 300 {
		return a.deployed(u), &Error{Status: cmp.Or(a.StatusCode, http.StatusOK), Message: a.Message, RequestID: a.RequestID, Logs: a.Logs}
	}
	return a.deployed(u), nil
}

// afterSending says of an error what it means for the deploy.
func (c *Client) afterSending(err error, whole bool, sent int64) error {
	_, refused := errors.AsType[*Error](err)
	switch {
	case err == nil, refused, errors.Is(err, ErrNotBerth), errors.Is(err, context.Canceled) && !whole:
		return err
	case whole:
		return failed(ErrUnknown, err, "the answer of %s was lost after the whole upload: %v", c.origin(), err)
	case sent > 0:
		return failed(ErrNoServer, err, "cannot deploy: the connection to %s ended after %d bytes of the upload, so nothing was deployed: %v", c.origin(), sent, errors.Unwrap(err))
	}
	return err
}

// form is what is around a file in a form of one file.
func form(name string) (head, tail, kind string) {
	var b strings.Builder
	w := multipart.NewWriter(&b)
	_, _ = w.CreateFormFile("file", name) // a strings.Builder takes everything
	head = b.String()
	_ = w.Close()
	return head, b.String()[len(head):], w.FormDataContentType()
}

// sending is a ZIP on its way. The transport may still read when an answer has come.
type sending struct {
	r     io.Reader
	size  int64
	heard func(int64)
	sum   atomic.Int64
}

// whole reports whether everything was read, so that it may have arrived.
func (s *sending) whole() bool { return s.sum.Load() == s.size }

// Read implements io.Reader.
func (s *sending) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	sum := s.sum.Add(int64(n))
	if s.heard != nil && n > 0 {
		s.heard(sum)
	}
	if errors.Is(err, io.EOF) && sum < s.size {
		err = fmt.Errorf("the ZIP became shorter while it was sent: %w", io.ErrUnexpectedEOF)
	}
	return n, err
}
