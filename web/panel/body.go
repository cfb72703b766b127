package panel

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"berth/app"
)

// The bounds of an upload are those of the API.
const (
	maxTextParts = 64       // before the file
	maxTextBytes = 64 << 10 // in all of them
	// silence is how long a client may send nothing.
	silence = time.Minute
	// leastPace is the bytes a second below which a body is given up in the end.
	leastPace = 16 << 10
	// lingering is how long a refused body may go on coming, lastLinger the same
	// while the daemon waits for it.
	lingering  = 30 * time.Second
	lastLinger = 2 * time.Second
	// unread is how many bytes a browser has sent before it hears.
	unread = 64 << 10
)

// incoming is a request's body that remembers whether it was read to its end.
type incoming struct {
	io.ReadCloser
	whole bool
}

func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// partial reports whether a browser is still sending so much that it may not
// listen before it is done: what is closed then is lost to it, with the answer.
func (c *call) partial() bool {
	n := c.r.ContentLength
	return c.sent != nil && !c.sent.whole && (n < 0 || n > unread) && c.r.Header.Get("Expect") == "" && c.r.ProtoMajor == 1
}

// linger takes what a refused browser still sends, after the answer, at most limit
// bytes and for a bounded time.
func (c *call) linger(control *http.ResponseController, limit int64) {
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingering)) != nil {
		return
	}
	stop := context.AfterFunc(c.r.Context(), func() { _ = control.SetReadDeadline(time.Now().Add(lastLinger)) })
	defer stop()
	_, _ = io.CopyN(io.Discard, c.sent, limit) // whatever comes, it was answered
}

// body reads an upload: at most limit bytes, none of them after a silence, all of
// them at a pace, and nothing once the daemon ends.
type body struct {
	io.Reader
	control *http.ResponseController
	until   time.Time
	err     error // of the last read

	mu  sync.Mutex
	cut error // why no more of it is taken
}

// upload returns the body of a call. done MUST be called when it was read.
func (c *call) upload(limit int64) (b *body, done func()) {
	b = &body{
		// The bare writer: net/http closes the connection of what is too large.
		Reader: http.MaxBytesReader(c.ResponseWriter, c.r.Body, limit), control: http.NewResponseController(c.ResponseWriter),
		until: time.Now().Add(silence + time.Duration(limit/leastPace)*time.Second),
	}
	stop := context.AfterFunc(c.r.Context(), func() {
		var said *app.Error
		if errors.As(context.Cause(c.r.Context()), &said) { // the client is there, and is to hear it
			b.mu.Lock()
			defer b.mu.Unlock()
			b.cut = said
			_ = b.control.SetReadDeadline(time.Now())
		}
	})
	return b, func() {
		stop()
		if errors.Is(b.err, io.EOF) {
			_ = b.control.SetReadDeadline(time.Time{})
		}
	}
}

// Read puts the deadline off first.
func (b *body) Read(p []byte) (int, error) {
	until := time.Now().Add(silence)
	if until.After(b.until) {
		until = b.until
	}
	b.mu.Lock()
	if b.cut == nil {
		_ = b.control.SetReadDeadline(until)
	}
	cut := b.cut
	b.mu.Unlock()
	if cut != nil {
		b.err = cut
		return 0, cut
	}
	n, err := b.Reader.Read(p)
	b.err = err
	return n, err
}

// blame says what was wrong with a body that could not be read.
func (b *body) blame(err error) error {
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		err = b.err
	}
	b.mu.Lock()
	cut := b.cut
	b.mu.Unlock()
	var tooLarge *http.MaxBytesError
	var late net.Error
	switch {
	case cut != nil:
		return cut
	case errors.As(err, &tooLarge):
		return errTooLarge(tooLarge.Limit)
	case errors.As(err, &late) && late.Timeout():
		return app.Errorf(app.Invalid, "the upload came too slowly, so it was given up")
	}
	return app.Errorf(app.Invalid, "the upload ended early, or is none")
}

func errTooLarge(limit int64) error {
	return app.Errorf(app.TooLarge, "the upload is larger than the %d MB that are allowed", max(1, limit>>20))
}

// spool streams the file of a form to the deployer, and counts it in j. The fields
// before it are told to field; ready judges them before a byte of the file is kept.
func (s *server) spool(ctx context.Context, c *call, j *job, field func(name, text string), ready func() error) (string, error) {
	if c.r.ContentLength > s.MaxUpload {
		return "", errTooLarge(s.MaxFile)
	}
	b, done := c.upload(s.MaxUpload)
	defer done()
	c.r.Body = io.NopCloser(b)
	parts, err := c.r.MultipartReader()
	if err != nil {
		return "", app.Errorf(app.Invalid, "choose a ZIP file to upload")
	}
	part, err := filePart(b, parts, field)
	if err == nil {
		err = ready()
	}
	if err != nil {
		return "", err
	}
	source := &counted{r: part, left: s.MaxFile, limit: s.MaxFile, j: j}
	file, err := s.Deployments.Spool(ctx, source)
	switch {
	case app.KindOf(source.err) == app.TooLarge:
		err = source.err
	case source.err != nil && !errors.Is(source.err, io.EOF):
		err = b.blame(source.err)
	case err == nil:
		// What follows is ignored, but a browser that is cut off in it had not sent
		// everything.
		if _, rest := io.Copy(io.Discard, b); rest != nil {
			err = b.blame(rest)
		}
	}
	if err != nil && file != "" {
		s.Deployments.DropSpool(file)
		file = ""
	}
	return file, err
}

// filePart returns the part that is a file and was chosen: browsers send one
// without a name and without content for none.
func filePart(b *body, parts *multipart.Reader, field func(name, text string)) (*multipart.Part, error) {
	left := maxTextBytes
	for range maxTextParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, app.Errorf(app.Invalid, "choose a ZIP file to upload")
		}
		if err != nil {
			return nil, b.blame(err)
		}
		if isFile(part) {
			return part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, int64(left+1)))
		if err != nil {
			return nil, b.blame(err)
		}
		if left -= len(text); left < 0 {
			break
		}
		field(part.FormName(), string(text))
	}
	return nil, app.Errorf(app.Invalid, "there is too much before the file")
}

// isFile accepts names that the standard library cannot parse: the name is of no
// use here.
func isFile(part *multipart.Part) bool {
	if part.FileName() != "" {
		return true
	}
	disposition := part.Header.Get("Content-Disposition")
	_, _, err := mime.ParseMediaType(disposition)
	return err != nil && strings.Contains(strings.ToLower(disposition), "filename")
}

// counted refuses what is longer than limit, and remembers how reading ended.
type counted struct {
	r           io.Reader
	limit, left int64
	err         error
	j           *job
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.j.came(n)
	if r.left -= int64(n); r.left < 0 {
		n, err = 0, errTooLarge(r.limit)
	}
	if err != nil {
		r.err = err
	}
	return n, err
}
