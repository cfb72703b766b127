package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"berth/app"
)

const (
	// MaxTextParts is how many parts there may be before the file.
	MaxTextParts = 64
	// MaxTextBytes is how many bytes there may be in all of them, where nobody says otherwise.
	MaxTextBytes = 64 << 10
)

// Upload is how an edge takes a file in a multipart body. The errors and Blame are its
// sentences; Blame says what is wrong with a body that could not be read.
type Upload struct {
	MaxBody, MaxFile        int64
	MaxText                 int // bytes in all parts before the file; MaxTextBytes when 0
	NoForm, NoFile, Crowded error
	TooLarge                func(limit int64) error // of the file
	Blame                   func(b *Body, err error) error
	Field                   func(name, text string) error // what comes before the file; may be nil
	Came                    func(bytes int)               // of the file; may be nil
	Spool                   func(ctx context.Context, r io.Reader) (file string, err error)
	DropSpool               func(file string)
}

// Take streams the file of a call to Spool, and returns the name of what that kept. The
// caller MUST hand it over. What the client did wrong goes before what Spool made of it.
func (u *Upload) Take(c *Call) (string, error) {
	b := c.Body(u.MaxBody)
	defer b.Done()
	part, err := u.Part(c, b)
	if err != nil {
		return "", err
	}
	source := &ErrReader{Reader: &bounded{u: u, r: part, left: u.MaxFile}}
	file, err := u.Spool(c.Request.Context(), source)
	switch {
	case app.KindOf(source.Err) == app.TooLarge:
		err = source.Err
	case source.Err != nil && !errors.Is(source.Err, io.EOF):
		err = u.Blame(b, source.Err)
	case err == nil:
		// Parts after the file are ignored, but a client that is cut off in them
		// was cut off before its request was complete.
		if _, rest := io.Copy(io.Discard, b); rest != nil {
			err = u.Blame(b, rest)
		}
	}
	if err != nil && file != "" {
		u.DropSpool(file)
		file = ""
	}
	return file, err
}

// Part returns the first part of a body that has a file name, whatever its field
// name: clients disagree about that. Those before it are shown to Field.
func (u *Upload) Part(c *Call, b *Body) (*multipart.Part, error) {
	c.Request.Body = b
	parts, err := c.Request.MultipartReader()
	if err != nil {
		return nil, u.NoForm
	}
	left := cmp.Or(u.MaxText, MaxTextBytes)
	for range MaxTextParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, u.NoFile
		}
		if err != nil {
			return nil, u.Blame(b, err)
		}
		if hasFilename(part) {
			c.FileName = part.FileName()
			return part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, int64(left+1)))
		if err != nil {
			return nil, u.Blame(b, err)
		}
		if left -= len(text); left < 0 {
			break
		}
		if u.Field == nil {
			continue
		}
		if err := u.Field(part.FormName(), string(text)); err != nil {
			return nil, err
		}
	}
	return nil, u.Crowded
}

// hasFilename accepts names that are written in ways the standard library
// cannot parse: a name is good to have, and not needed. Browsers send a part without a name
// and without content for no file.
func hasFilename(part *multipart.Part) bool {
	if part.FileName() != "" {
		return true
	}
	disposition := part.Header.Get("Content-Disposition")
	_, _, err := mime.ParseMediaType(disposition)
	return err != nil && strings.Contains(strings.ToLower(disposition), "filename")
}

// ErrReader remembers how reading ended, whatever the reader's user makes of it.
type ErrReader struct {
	io.Reader
	Err error
}

// Read implements io.Reader.
func (r *ErrReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.Err = err
	}
	return n, err
}

// bounded refuses what is longer than an upload's file may be.
type bounded struct {
	u    *Upload
	r    io.Reader
	left int64
}

func (r *bounded) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.u.Came != nil {
		r.u.Came(n)
	}
	if r.left -= int64(n); r.left < 0 {
		return 0, r.u.TooLarge(r.u.MaxFile)
	}
	return n, err
}
