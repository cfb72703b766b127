package panel

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"berth/app"
	"berth/web"
)

// maxText is how large a file may be that is shown or edited as text, in bytes.
// Form bodies may need three for one.
const (
	maxText     = 1 << 20
	maxTextForm = 3*maxText + 4096
)

// filesPage is the data of files.html.
type filesPage struct {
	Path    string // "." is the tree
	Crumbs  []crumb
	Entries []entry
	More    bool
	Own     bool
	Put     string // where a file for this directory is sent
}

// crumb leads to a directory above.
type crumb struct{ Word, URL string }

// entry is one name in a directory.
type entry struct {
	app.Entry
	Shown    string // the name, with what no text has made visible
	URL      string // "" for what cannot be opened
	Download string
	Icon     string
}

// filePage is the data of file.html.
type filePage struct {
	Path, Name string
	Crumbs     []crumb
	Bytes      int64
	Text       string
	Readable   bool // it is text, and not too large
	Download   string
	Own        bool
	CRLF       bool // its lines end so
}

// place is the path that a query names, "." for none.
func (c *call) place() (string, error) {
	q, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return "", app.Errorf(app.Invalid, "this address is malformed")
	}
	if p := q.Get("path"); p != "" {
		return p, nil
	}
	return ".", nil
}

// files lists a directory of the application.
func (s *server) files(c *call) (answer, error) {
	dir, err := c.place()
	if err != nil {
		return answer{}, err
	}
	list, more, err := s.Contents.List(c.app.ID, c.app.UID, dir)
	if err != nil {
		return answer{}, err
	}
	page := filesPage{Path: dir, Crumbs: c.crumbs(dir), More: more, Own: c.own(), Put: c.at("files/upload?") + query("path", dir)}
	for _, e := range list {
		row := entry{Entry: e, Shown: visible(e.Name), Icon: "file"}
		at := query("path", path.Join(dir, e.Name))
		switch e.Kind {
		case app.EntryDir:
			row.URL, row.Icon = c.at("files?")+at, "folder"
		case app.EntryFile:
			row.URL, row.Download = c.at("files/view?")+at, c.at("files/download?")+at
		case app.EntryLink, app.EntryOther:
			row.Icon = "dot"
		}
		page.Entries = append(page.Entries, row)
	}
	return show("files", page)
}

// putFile stores a file in the directory that is shown.
func (s *server) putFile(c *call) (answer, error) {
	dir, err := c.place()
	if err != nil {
		return answer{}, err
	}
	if c.Request.ContentLength > maxText+web.MaxTextBytes {
		return answer{}, errTooLarge(maxText)
	}
	b := c.Body(maxText + web.MaxTextBytes)
	defer b.Done()
	u := s.uploads(app.Errorf(app.Invalid, "choose a ZIP file to upload"))
	u.NoForm = app.Errorf(app.Invalid, "choose a file to upload")
	part, err := u.Part(&c.Call, b)
	if err != nil {
		return answer{}, err
	}
	base := part.FileName() // the last element alone of what the browser says
	if base == "" || base == "." || base == ".." {
		return answer{}, app.Errorf(app.Invalid, "choose a file to upload")
	}
	data, err := io.ReadAll(io.LimitReader(part, maxText+1))
	if err == nil && len(data) <= maxText {
		_, err = io.Copy(io.Discard, b)
	}
	if err != nil {
		return answer{}, blame(b, err)
	}
	if len(data) > maxText {
		return answer{}, errTooLarge(maxText)
	}
	name := path.Join(dir, base)
	c.audit.Note("path=%.200q bytes=%d", name, len(data))
	if err := s.Settings.WriteFile(context.WithoutCancel(c.Request.Context()), c.owner, c.app.ID, name, data); err != nil {
		return answer{}, err
	}
	return done(c.at("files?")+query("path", dir), c.lang.Say("The file was saved. A program that has read it already needs a restart."))
}

// crumbs lead to the directories of a path, the tree first.
func (c *call) crumbs(dir string) []crumb {
	all := []crumb{{c.lang.Say("Files"), c.at("files")}}
	if dir == "." {
		return all
	}
	parts := strings.Split(dir, "/")
	for i, name := range parts {
		all = append(all, crumb{visible(name), c.at("files?") + query("path", strings.Join(parts[:i+1], "/"))})
	}
	return all
}

// visible is a name of a stranger's with what cannot be seen, or turns text
// around, written out.
func visible(name string) string {
	q := strconv.QuoteToGraphic(name)
	inner := q[1 : len(q)-1]
	if !strings.Contains(name, `\`) {
		inner = strings.ReplaceAll(inner, `\"`, `"`)
	}
	return inner
}

// viewFile shows a text.
func (s *server) viewFile(c *call) (answer, error) {
	name, err := c.place()
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("path=%.200q", name)
	source, size, err := s.Contents.OpenFile(c.app.ID, c.app.UID, name)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = source.Close() }() // only read, so nothing can be lost
	page := c.fileOf(name)
	page.Bytes = size
	if size <= maxText {
		text, err := io.ReadAll(io.LimitReader(source, maxText+1))
		if err != nil {
			return answer{}, err
		}
		page.Readable = len(text) <= maxText && utf8.Valid(text) && !bytes.ContainsRune(text, 0)
		if page.Readable {
			page.Text, page.CRLF = string(text), bytes.Contains(text, []byte("\r\n"))
		}
	}
	return show("file", page)
}

func (c *call) fileOf(name string) filePage {
	return filePage{
		Path: name, Name: visible(path.Base(name)), Crumbs: c.crumbs(path.Dir(name)), Own: c.own(),
		Download: c.at("files/download?") + query("path", name),
	}
}

// downloadFile sends a file as it is, never to be shown.
func (s *server) downloadFile(c *call) (answer, error) {
	name, err := c.place()
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("path=%.200q", name)
	source, size, err := s.Contents.OpenFile(c.app.ID, c.app.UID, name)
	if err != nil {
		return answer{}, err
	}
	h := c.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": strings.ToValidUTF8(path.Base(name), "_")})
	if disposition == "" {
		disposition = "attachment"
	}
	h.Set("Content-Disposition", disposition)
	return answer{stream: func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = source.Close() }() // only read, so nothing can be lost
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			return
		}
		control := http.NewResponseController(w)
		buf := make([]byte, 128<<10)
		for left := size; left > 0; {
			n, err := source.Read(buf[:min(int64(len(buf)), left)])
			_ = control.SetWriteDeadline(time.Now().Add(web.Patience))
			if _, failed := w.Write(buf[:n]); failed != nil || err != nil && int64(n) < left {
				panic(http.ErrAbortHandler) // or the browser takes the part for the whole
			}
			left -= int64(n)
		}
		_ = control.SetWriteDeadline(time.Time{})
	}}, nil
}

// editFile shows what was typed again when it was refused.
func (s *server) editFile(c *call) (answer, error) {
	if c.Request.PostForm == nil {
		return answer{}, app.Errorf(app.Invalid, "the form could not be read")
	}
	page := c.fileOf(c.Request.PostForm.Get("path"))
	page.Readable, page.Text, page.CRLF = true, c.Request.PostForm.Get("text"), c.Request.PostForm.Get("crlf") == "true"
	page.Bytes = int64(len(page.Text))
	return show("file", page)
}

// writeFile stores a text. Browsers write lines with CR LF; a text that had none
// keeps its own.
func (s *server) writeFile(c *call) (answer, error) {
	f, err := c.formWithin(maxTextForm)
	if err != nil {
		return answer{}, err
	}
	name, text := f.Get("path"), f.Get("text")
	c.audit.Note("path=%.200q bytes=%d", name, len(text))
	if f.Get("crlf") != "true" {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if len(text) > maxText {
		return answer{}, app.Errorf(app.TooLarge, "a text of more than 1 MB cannot be edited here")
	}
	if err := s.Settings.WriteFile(context.WithoutCancel(c.Request.Context()), c.owner, c.app.ID, name, []byte(text)); err != nil {
		return answer{}, err
	}
	return done(c.at("files/view?")+query("path", name), c.lang.Say("The file was saved. A program that has read it already needs a restart."))
}
