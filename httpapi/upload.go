package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"

	"berth/app"
)

const (
	maxTextParts = 64       // before the file
	maxTextBytes = 64 << 10 // in all of them
)

const (
	howToUpload   = "Send the ZIP file as multipart/form-data, in a part that has a file name."
	brokenUpload  = "The upload ended early or is not well-formed multipart/form-data."
	missingUpload = "missing required file: no part of the request has a file name. " + howToUpload
)

type uploadAnswer struct {
	Status     string   `json:"status"`
	StatusCode int      `json:"statusCode"`
	Message    string   `json:"message"`
	App        uploaded `json:"app"`
	Logs       string   `json:"logs,omitempty"`
}

type uploaded struct {
	ID               app.ID   `json:"id"`
	Type             app.Type `json:"type"`
	Name             string   `json:"name"`
	AvatarURL        string   `json:"avatarURL"`
	RAM              app.MB   `json:"ram"`
	MainFile         string   `json:"mainFile"`
	Lang             string   `json:"lang"`
	Version          string   `json:"version"`
	AddedAtTimestamp int64    `json:"addedAtTimestamp"` // milliseconds
	AutoRestart      bool     `json:"autoRestart"`
}

type commitAnswer struct {
	Status     string `json:"status"`
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
	Logs       string `json:"logs,omitempty"`
}

func (s *server) upload(c *call) (response, error) {
	file, err := s.spool(c)
	if err != nil {
		return response{}, err
	}
	// The file is here; whether the client waits for the answer changes nothing.
	d, err := s.Deployments.Upload(context.WithoutCancel(c.r.Context()), c.account, file)
	if err != nil {
		return response{}, err
	}
	c.about(d.Snapshot)
	return ok(uploadAnswer{
		Status:     statusOK,
		StatusCode: http.StatusOK,
		Message:    c.tell(outcome(app.Textf("Your application was uploaded"), d.Snapshot, s.Now())),
		App:        uploadedOf(d),
		Logs:       d.Logs,
	})
}

func uploadedOf(d app.Deployed) uploaded {
	return uploaded{
		ID:               d.ID,
		Type:             d.Type,
		Name:             d.Name,
		AvatarURL:        d.AvatarURL,
		RAM:              d.RAM,
		MainFile:         d.Code.Main,
		Lang:             d.Code.Lang,
		Version:          d.Code.Version,
		AddedAtTimestamp: d.CreatedAt.UnixMilli(),
		AutoRestart:      d.AutoRestart,
	}
}

func (s *server) commit(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := s.Applications.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	file, err := s.spool(c)
	if err != nil {
		return response{}, err
	}
	d, err := s.handOver(context.WithoutCancel(c.r.Context()), c, file)
	if err != nil {
		return response{}, err
	}
	return ok(commitAnswer{statusOK, http.StatusOK, c.tell(outcome(app.Textf("Your application was updated"), d.Snapshot, s.Now())), d.Logs})
}

// handOver commits what was spooled, unless the member who sent it was taken
// out of the team meanwhile: a file can be long on its way.
func (s *server) handOver(ctx context.Context, c *call, file string) (app.Deployed, error) {
	if c.mayStill != nil {
		if err := c.mayStill(); err != nil {
			s.Deployments.DropSpool(file)
			return app.Deployed{}, err
		}
	}
	return s.Deployments.Commit(app.WithActor(ctx, c.account.ID), c.owner(), c.id, file)
}

// spool streams the first file of a multipart body to the deployer and returns
// the name of what it kept. The caller MUST hand it over.
func (s *server) spool(c *call) (string, error) {
	return s.spoolWith(c, func(string, string) error { return nil })
}

// spoolWith is spool, and calls field with the name and the text of each part
// that comes before the file.
func (s *server) spoolWith(c *call, field func(name, text string) error) (string, error) {
	if c.r.ContentLength > s.MaxUpload {
		return "", tooLargeError(s.MaxUpload)
	}
	give, err := s.uploads.take(c.account.ID)
	if err != nil {
		return "", err
	}
	defer give()
	b := c.body(s.MaxUpload)
	defer b.done()
	c.r.Body = b
	parts, err := c.r.MultipartReader()
	if err != nil {
		return "", app.Errorf(app.Invalid, howToUpload)
	}
	part, err := filePart(b, parts, field)
	if err != nil {
		return "", err
	}
	source := &witness{r: &bounded{part, s.MaxFile, s.MaxFile}}
	file, err := s.Deployments.Spool(c.r.Context(), source)
	if kept := s.complete(b, source, err); kept != nil {
		if file != "" {
			s.Deployments.DropSpool(file)
		}
		return "", kept
	}
	return file, nil
}

// accountUploads is how many bodies of one account may be on their way at a
// time: each can hold a connection, and room on the disk.
const accountUploads = 8

// uploads counts them. It is safe for concurrent use.
type uploads struct {
	mu sync.Mutex
	of map[app.AccountID]int
}

// take admits one more, or refuses it with app.Limited. The caller MUST call
// give when it has come.
func (u *uploads) take(id app.AccountID) (give func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[id] >= accountUploads {
		return nil, app.Errorf(app.Limited, "Your account has %d uploads on their way, as many as one account gets. Try again when one has come.", accountUploads)
	}
	u.of[id]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.of[id]--; u.of[id] == 0 {
			delete(u.of, id)
		}
	}, nil
}

// complete reports what is wrong with an upload that was spooled with err. What
// the client did wrong goes before what the deployer made of it.
func (s *server) complete(b *body, source *witness, err error) error {
	if app.KindOf(source.err) == app.TooLarge {
		return source.err
	}
	if source.err != nil && !errors.Is(source.err, io.EOF) {
		return b.blame(source.err, app.Textf(brokenUpload))
	}
	if err != nil {
		return err
	}
	// Parts after the file are ignored, but a client that is cut off in them
	// was cut off before its request was complete.
	if _, err := io.Copy(io.Discard, b); err != nil {
		return b.blame(err, app.Textf(brokenUpload))
	}
	return nil
}

// filePart returns the first part that has a file name, whatever its field
// name: clients disagree about that. Those before it are shown to field.
func filePart(b *body, parts *multipart.Reader, field func(name, text string) error) (*multipart.Part, error) {
	skipped := 0
	for range maxTextParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, app.Errorf(app.NotFound, missingUpload)
		}
		if err != nil {
			return nil, b.blame(err, app.Textf(brokenUpload))
		}
		if hasFilename(part) {
			return part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, int64(maxTextBytes-skipped+1)))
		if err != nil {
			return nil, b.blame(err, app.Textf(brokenUpload))
		}
		if skipped += len(text); skipped > maxTextBytes {
			break
		}
		if err := field(part.FormName(), string(text)); err != nil {
			return nil, err
		}
	}
	return nil, app.Errorf(app.Invalid, "There is too much before the file. %s", app.Textf(howToUpload))
}

// hasFilename accepts names that are written in ways the standard library
// cannot parse: the name itself is of no use here.
func hasFilename(part *multipart.Part) bool {
	if part.FileName() != "" {
		return true
	}
	disposition := part.Header.Get("Content-Disposition")
	_, _, err := mime.ParseMediaType(disposition)
	return err != nil && strings.Contains(strings.ToLower(disposition), "filename")
}

// witness remembers how reading ended, whatever the reader's user makes of it.
type witness struct {
	r   io.Reader
	err error
}

func (w *witness) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// bounded refuses what is longer than limit with app.TooLarge.
type bounded struct {
	r           io.Reader
	limit, left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, app.Errorf(app.TooLarge, "The upload is larger than the %s that are allowed.", size(b.limit))
	}
	return n, err
}
