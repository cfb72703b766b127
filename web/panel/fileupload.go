package panel

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"path"
	"strings"
	"unicode"

	"berth/app"
	"berth/web"
)

const (
	maxFiles   = 2000     // of one form
	maxBatch   = 64 << 20 // bytes of all of them
	maxNesting = 32       // directories of one name, as in a ZIP
	maxToldOf  = 100      // files that were refused
)

// refusedFile is one that a form brought and that was not stored.
type refusedFile struct{ Name, Why string }

// arrivals are the files of one form on their way into a directory.
type arrivals struct {
	p       filePages
	c       *call
	dir     string
	replace bool
	made    map[string]bool // directories that are known to be there
	stored  int
	bytes   int
	failed  int
	taken   bool          // a name of one was
	told    []refusedFile // the first that failed
}

// put stores the files of a form below the directory that is shown, each by its name, which has the directories of a
// folder that was chosen. One that is refused keeps no other from its place.
func (p filePages) put(c *call) (answer, error) {
	dir, err := place(c)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("path=%.200q", dir)
	if c.Request.ContentLength > maxBatch {
		return answer{}, errTooLarge(maxBatch)
	}
	body := c.Body(maxBatch)
	defer body.Done()
	c.Request.Body = body
	parts, err := c.Request.MultipartReader()
	if err != nil {
		return answer{}, app.Errorf(app.Invalid, "choose a file to upload")
	}
	b := &arrivals{p: p, c: c, dir: dir, made: map[string]bool{dir: true}}
	err = b.take(parts)
	if err != nil && app.KindOf(err) == app.Internal {
		err = blame(body, err)
	}
	c.audit.Note("files=%d bytes=%d refused=%d replace=%v", b.stored, b.bytes, b.failed, b.replace)
	switch {
	case err != nil:
		return answer{}, err
	case b.stored+b.failed == 0:
		return answer{}, app.Errorf(app.Invalid, "choose a file to upload")
	case b.failed == 0:
		return toDir(c, dir, c.lang.Count(b.stored, "%d file was uploaded.", "%d files were uploaded.", b.stored)), nil
	}
	return b.report()
}

// report shows what was refused, and why.
func (b *arrivals) report() (answer, error) {
	a, err := b.p.listOf(b.c, b.dir)
	if err != nil {
		return answer{}, err
	}
	page := a.data.(filesPage)
	page.Refused, page.Stored, page.Failed, page.Taken = b.told, b.stored, b.failed, b.taken
	a.data, a.status, a.refusal = page, web.StatusOf(app.Conflict), "Not every file was stored."
	return a, nil
}

// take reads the parts. It fails when there is no more to read.
func (b *arrivals) take(parts *multipart.Reader) error {
	for range maxFiles + web.MaxTextParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, is := sentName(part)
		switch {
		case !is:
			text, err := io.ReadAll(io.LimitReader(part, 16))
			if err != nil {
				return err
			}
			b.replace = b.replace || part.FormName() == "replace" && string(text) == "true"
			continue
		case b.stored+b.failed == maxFiles:
			return app.Errorf(app.TooLarge, "one upload has at most %d files; upload a folder with more as a ZIP", maxFiles)
		}
		data, err := io.ReadAll(io.LimitReader(part, maxText+1))
		if err != nil {
			return err
		}
		if name == "" && len(data) == 0 {
			continue // nothing was chosen there
		}
		if err := b.store(name, data); err != nil {
			if sayable(err) == nil {
				return err
			}
			b.taken = b.taken || app.KindOf(err) == app.Conflict && b.isThere(name)
			if b.failed++; len(b.told) < maxToldOf {
				b.told = append(b.told, refusedFile{visible(name), b.c.say(err)})
			}
			continue
		}
		if b.stored++; b.stored == 1 {
			b.c.audit.Note("first=%.200q", path.Join(b.dir, name))
		}
		b.bytes += len(data)
	}
	return app.Errorf(app.Invalid, "there is too much before the file")
}

// isThere reports whether a file has a name: what else is in the way, such as a deployment, no upload replaces.
func (b *arrivals) isThere(name string) bool {
	f, _, err := b.p.contents.OpenFile(b.c.app.ID, b.c.app.UID, path.Join(b.dir, name))
	if err != nil {
		return false
	}
	_ = f.Close() // was not read
	return true
}

// sentName is the name of the file in a part, with its directories, which multipart.Part.FileName would drop. Browsers
// write a quotation mark in it as %22.
func sentName(part *multipart.Part) (name string, is bool) {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	name, is = params["filename"]
	return strings.ReplaceAll(name, "%22", `"`), is && err == nil
}

// store stores one file, and makes the directories above it.
func (b *arrivals) store(name string, data []byte) error {
	if err := checkSent(name); err != nil {
		return err
	}
	if len(data) > maxText {
		return errTooLarge(maxText)
	}
	ctx, target := context.WithoutCancel(b.c.ctx()), path.Join(b.dir, name)
	if err := b.makeAbove(ctx, path.Dir(target)); err != nil {
		return err
	}
	over := app.OverNothing
	if b.replace {
		over = app.OverAny
	}
	err := b.p.edits.WriteFile(ctx, b.c.owner, b.c.app.ID, target, data, over)
	if app.KindOf(err) == app.NotFound && path.Dir(target) != b.dir {
		return app.Errorf(app.Conflict, "something else than a directory has the name of one of its directories")
	}
	return err
}

// makeAbove makes a directory and those above it, up to the one that is shown.
func (b *arrivals) makeAbove(ctx context.Context, dir string) error {
	if b.made[dir] || dir == path.Dir(dir) { // "." and "/" have none above
		return nil
	}
	if err := b.makeAbove(ctx, path.Dir(dir)); err != nil {
		return err
	}
	if err := b.p.edits.MakeDir(ctx, b.c.owner, b.c.app.ID, dir); err != nil && app.KindOf(err) != app.Conflict {
		return err
	}
	b.made[dir] = true
	return nil
}

// checkSent refuses the names that no honest browser sends.
func checkSent(name string) error {
	parts := strings.Split(name, "/")
	switch {
	case strings.ContainsFunc(name, unicode.IsControl):
		return app.Errorf(app.Invalid, "a name must not have control characters")
	case strings.Contains(name, `\`):
		return app.Errorf(app.Invalid, "a name must not have a backslash")
	case len(parts) > maxNesting:
		return app.Errorf(app.Invalid, "a file may be in at most %d directories", maxNesting)
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return app.Errorf(app.Invalid, "a name must not be absolute, and no part of it may be empty, . or ..")
		}
	}
	return nil
}
