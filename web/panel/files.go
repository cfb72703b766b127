package panel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

// maxText is how large a file may be that is shown or edited as text, in bytes.
// Form bodies may need three for one.
const (
	maxText     = 1 << 20
	maxTextForm = 3*maxText + 4096
	maxChosen   = 1 << 20 // of a form with the files that are chosen in a directory
)

// filePages are the files of an application.
type filePages struct {
	contents app.Contents
	edits    app.FileEdits
	apps     app.Applications
	spools   app.Deployments
	packs    *turns // of ZIPs that are packed, as slowly as they are read
	turns    *turns // of those that are unpacked
	sends    *turns // of those that are on their way

	maxUpload, maxFile int64 // bytes of the form with a ZIP, and of the ZIP
}

// filesPage is the data of files.html.
type filesPage struct {
	Crumbs  []crumb
	Entries []entry
	More    bool
	Put     string // where a file for this directory is sent
	Dir     string // its path, as a form names it: see chosen
	To      string // what the field for another place begins with
	Zip     string // where it can be downloaded
	PutZip  string // where a ZIP for it is sent
	MaxZip  int64

	// What came of an upload of which not everything was stored.
	Refused        []refusedFile
	Stored, Failed int
	Taken          bool // a name was: to replace helps
}

// Untold is how many files were refused that are not named.
func (p filesPage) Untold() int { return p.Failed - len(p.Refused) }

// crumb leads to a directory above.
type crumb struct{ Word, URL string }

// entry is one name in a directory.
type entry struct {
	app.Entry
	Key      string // its path, as a form names it: see chosen
	Shown    string // the name, with what no text has made visible
	URL      string // "" for what cannot be opened
	Download string
	Icon     string
	Zip      bool // it can be unpacked
}

// filePage is the data of file.html.
type filePage struct {
	Path, Name string
	Crumbs     []crumb
	Bytes      int64
	Text       string
	Readable   bool // it is text, and not too large
	Download   string
	CRLF       bool // its lines end so
	Was        app.Over
	Phrases    string // the editor's own words, in JSON
	Changed    *altered
}

// altered is what somebody else has made of a file since a page had it: when it is nil, nobody has.
type altered struct {
	Gone  bool
	Bytes int64
	At    time.Time // zero when it is not known
	Over  app.Over  // what it is now
	Again string    // where it can be seen
}

// place is the path that a query names, "." for the tree.
func place(c *call) (string, error) {
	q, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return "", app.Errorf(app.Invalid, "this address is malformed")
	}
	if p := q.Get("path"); p != "" {
		return p, nil
	}
	return ".", nil
}

// list shows a directory of the application.
func (p filePages) list(c *call) (answer, error) {
	dir, err := place(c)
	if err != nil {
		return answer{}, err
	}
	return p.listOf(c, dir)
}

func (p filePages) listOf(c *call, dir string) (answer, error) {
	list, more, err := p.contents.List(c.app.ID, c.app.UID, dir)
	page := filesPage{Crumbs: crumbs(c, dir), More: more, Put: c.at("files/upload?") + query("path", dir), Dir: url.PathEscape(dir)}
	page.Zip, page.PutZip, page.MaxZip = c.at("files/zip?")+query("path", dir), c.at("files/unzip/upload?")+query("path", dir), p.maxFile
	if dir != "." && visible(dir) == dir {
		page.To = dir + "/"
	}
	for _, e := range list {
		name := path.Join(dir, e.Name)
		row := entry{Entry: e, Key: url.PathEscape(name), Shown: visible(e.Name), Icon: "file"}
		at := query("path", name)
		switch e.Kind {
		case app.EntryDir:
			row.URL, row.Icon, row.Download = c.at("files?")+at, "folder", c.at("files/zip?")+at
		case app.EntryFile:
			row.URL, row.Download = c.at("files/view?")+at, c.at("files/download?")+at
			row.Zip = strings.EqualFold(path.Ext(e.Name), ".zip")
		case app.EntryLink, app.EntryOther:
			row.Icon = "dot"
		}
		page.Entries = append(page.Entries, row)
	}
	return show("files", page), err
}

// crumbs lead to the directories of a path, the tree first.
func crumbs(c *call, dir string) []crumb {
	all := []crumb{{c.lang.Say("Files"), c.at("files")}}
	if dir == "." {
		return all
	}
	at := ""
	for name := range strings.SplitSeq(dir, "/") {
		at += name
		all = append(all, crumb{visible(name), c.at("files?") + query("path", at)})
		at += "/"
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

// open opens the file that a query names. The caller closes.
func (p filePages) open(c *call) (name string, source io.ReadCloser, size int64, err error) {
	if name, err = place(c); err != nil {
		return "", nil, 0, err
	}
	c.audit.Note("path=%.200q", name)
	source, size, err = p.contents.OpenFile(c.app.ID, c.app.UID, name)
	return name, source, size, err
}

// view shows a text.
func (p filePages) view(c *call) (answer, error) {
	name, source, size, err := p.open(c)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = source.Close() }() // only read, so nothing can be lost
	page := fileOf(c, name)
	page.Bytes = size
	if size <= maxText {
		text, err := io.ReadAll(io.LimitReader(source, maxText+1))
		if err != nil {
			return answer{}, err
		}
		page.Readable = len(text) <= maxText && utf8.Valid(text) && !bytes.ContainsRune(text, 0)
		if page.Readable {
			page.Text, page.CRLF, page.Was = string(text), endsInCRLF(text), app.OverText(text)
		}
	}
	return show("file", page), nil
}

func fileOf(c *call, name string) filePage {
	return filePage{
		Path: name, Name: visible(path.Base(name)), Crumbs: crumbs(c, path.Dir(name)),
		Download: c.at("files/download?") + query("path", name), Phrases: phrases(c.lang),
	}
}

// endsInCRLF reports whether every line ends so. A browser sends all that way, and one line of
// Windows' must not make a script's others so: it would not start.
func endsInCRLF(text []byte) bool {
	n := bytes.Count(text, []byte{'\r', '\n'})
	return n > 0 && n == bytes.Count(text, []byte{'\n'})
}

// phrases are the words of CodeMirror in a language, by its own: "$" stands for a number.
func phrases(l text.Language) string {
	all, err := json.Marshal(map[string]string{
		"Find": l.Say("Find"), "Replace": l.Say("Replace"), "next": l.Say("Next match"), "previous": l.Say("Previous match"), "all": l.Say("Choose all"),
		"match case": l.Say("Match case"), "regexp": l.Say("Regular expression"), "by word": l.Say("Whole words"),
		"replace": l.Say("Replace"), "replace all": l.Say("Replace all"), "close": l.Say("Close"),
		"current match": l.Say("This match"), "on line": l.Say("on line"), "replaced match on line $": l.Say("replaced on line $"), "replaced $ matches": l.Say("replaced $ times"),
		"Go to line": l.Say("Go to line"), "go": l.Say("Go"), "Control character": l.Say("Control character"), "Selection deleted": l.Say("What was selected is deleted"),
	})
	if err != nil {
		panic(err) // strings alone, so this cannot be
	}
	return string(all)
}

// download sends a file as it is, never to be shown.
func (p filePages) download(c *call) (answer, error) {
	name, source, size, err := p.open(c)
	if err != nil {
		return answer{}, err
	}
	attach(c, "application/octet-stream", path.Base(name))
	c.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	return answer{stream: func() { c.sendFile(source, size, web.Patience) }}, nil
}

// edit shows what was typed again when it was refused, and what the file is where it is not what it was.
func (p filePages) edit(c *call) (answer, error) {
	f := c.Request.PostForm
	if f == nil {
		return answer{}, app.Errorf(app.Invalid, "the form could not be read")
	}
	page := fileOf(c, f.Get("path"))
	page.Readable, page.Text, page.CRLF = true, f.Get("text"), f.Get("crlf") == "true"
	page.Bytes, page.Was = int64(len(page.Text)), app.Over(f.Get("was"))
	if now := p.now(c, page.Path); now.Over != page.Was {
		page.Changed = &now
		if now.Over == app.OverText([]byte(typed(f))) { // it was saved, and what came after that failed
			page.Was, page.Changed = now.Over, nil
		}
	}
	return show("file", page), nil
}

// now is what a file is.
func (p filePages) now(c *call, name string) altered {
	now := altered{Over: app.OverAny, Again: c.at("files/view?") + query("path", name)}
	source, size, err := p.contents.OpenFile(c.app.ID, c.app.UID, name)
	if err != nil {
		now.Gone, now.Over = true, app.OverNothing
		return now
	}
	defer func() { _ = source.Close() }() // only read, so nothing can be lost
	now.Bytes = size
	if file, ok := source.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := file.Stat(); err == nil {
			now.At = info.ModTime()
		}
	}
	if text, err := io.ReadAll(io.LimitReader(source, maxText+1)); err == nil && len(text) <= maxText {
		now.Over = app.OverText(text)
	}
	return now
}

// typed is the text of a form. Browsers write lines with CR LF; a text that had none
// keeps its own.
func typed(f url.Values) string {
	if f.Get("crlf") == "true" {
		return f.Get("text")
	}
	return strings.ReplaceAll(f.Get("text"), "\r\n", "\n")
}

// write stores a text, unless the file is not any more what the form had, and starts the program anew when
// that is asked for.
func (p filePages) write(c *call, f url.Values) (answer, error) {
	name, text := f.Get("path"), typed(f)
	c.audit.Note("path=%.200q bytes=%d", name, len(text))
	if len(text) > maxText {
		return answer{}, app.Errorf(app.TooLarge, "a text of more than 1 MB cannot be edited here")
	}
	over := app.Over(cmp.Or(f.Get("over"), f.Get("was")))
	if f.Get("over") != "" {
		c.audit.Note("over=true")
	}
	a, err := p.save(c, name, []byte(text), c.at("files/view?")+query("path", name), over)
	if err != nil || f.Get("then") != "run" {
		return a, err
	}
	return p.run(c)
}

// save stores a file, whether the browser waits or not.
func (p filePages) save(c *call, name string, data []byte, to string, over app.Over) (answer, error) {
	err := p.edits.WriteFile(context.WithoutCancel(c.ctx()), c.owner, c.app.ID, name, data, over)
	return changed(to, c.lang.Say("The file was saved. A program that has read it already needs a restart.")), err
}

// run restarts the program, or starts it, after its file was saved.
func (p filePages) run(c *call) (answer, error) {
	ctx, to := context.WithoutCancel(c.ctx()), "/apps/"+string(c.app.ID)
	if actionsOf(c.app, app.AllPermissions).Restart {
		c.audit.Note("restart=true")
		if err := p.apps.Restart(ctx, c.owner, c.app.ID); err != nil {
			return answer{}, saved(err)
		}
		return done(to, c.lang.Say("The file was saved, and %s was restarted.", c.app.Name)), nil
	}
	c.audit.Note("start=true")
	if _, err := p.apps.Start(ctx, c.owner, c.app.ID); err != nil && app.KindOf(err) != app.Already {
		return answer{}, saved(err)
	}
	return done(to, c.lang.Say("The file was saved, and %s was started.", c.app.Name)), nil
}

// saved says that a file was saved although what came after that failed.
func saved(err error) error {
	e := sayable(err)
	if e == nil {
		return err
	}
	return &app.Error{Kind: e.Kind, Message: app.Textf("the file was saved, but the program was not started anew: %s", e.Message), Err: err}
}

// chosen are the paths of a form: its directory, "." for the tree, and the files that are chosen there. A form
// has them escaped as in addresses, for a name can hold what turns text around.
func chosen(c *call, f url.Values) (dir string, names []string, err error) {
	for _, escaped := range append([]string{f.Get("dir")}, f["path"]...) {
		name, err := url.PathUnescape(escaped)
		if err != nil {
			return "", nil, app.Errorf(app.Invalid, "the form could not be read")
		}
		names = append(names, name)
	}
	if dir, names = names[0], names[1:]; dir == "" {
		dir = "."
	}
	c.audit.Note("path=%.200q", dir)
	return dir, names, nil
}

// make makes a directory, or an empty file, which is then opened.
func (p filePages) make(c *call, f url.Values) (answer, error) {
	dir, _, err := chosen(c, f)
	if err != nil {
		return answer{}, err
	}
	name := path.Join(dir, strings.TrimSpace(f.Get("name")))
	c.audit.Note("new=%.200q", name)
	ctx := context.WithoutCancel(c.ctx())
	if f.Get("kind") == "dir" {
		err := p.edits.MakeDir(ctx, c.owner, c.app.ID, name)
		return done(c.at("files?")+query("path", name), c.lang.Say("The directory was created.")), err
	}
	err = p.edits.WriteFile(ctx, c.owner, c.app.ID, name, nil, app.OverNothing)
	return done(c.at("files/view?")+query("path", name), c.lang.Say("The file was created.")), err
}

// move gives files another directory, or one of them another name.
func (p filePages) move(c *call, f url.Values) (answer, error) {
	dir, names, err := chosen(c, f)
	if err != nil {
		return answer{}, err
	}
	to := strings.Trim(strings.TrimSpace(f.Get("to")), "/")
	c.audit.Note("moved=%.400q to=%.200q", names, to)
	if len(names) == 0 {
		return answer{}, errNoneChosen()
	}
	if to == "" {
		to = "."
	}
	_, _, err = p.contents.List(c.app.ID, c.app.UID, to)
	into := err == nil
	if !into && len(names) > 1 {
		return answer{}, app.Errorf(app.NotFound, "there is no directory %q to move the files to", to)
	}
	for _, name := range names {
		target := to
		if into {
			target = path.Join(to, path.Base(name))
		}
		if err := p.edits.MoveFile(context.WithoutCancel(c.ctx()), c.owner, c.app.ID, name, target); err != nil {
			return answer{}, err
		}
	}
	return done(c.at("files?")+query("path", dir), c.lang.Count(len(names), "%d file was moved.", "%d files were moved.", len(names))), nil
}

// deletePage is the data of delete.html.
type deletePage struct {
	Dir, Back string
	Keys      []string // as the form names them
	Shown     []string
}

// remove deletes files, and first asks whether that is meant.
func (p filePages) remove(c *call, f url.Values) (answer, error) {
	dir, names, err := chosen(c, f)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("deleted=%.400q", names)
	back := c.at("files?") + query("path", dir)
	if len(names) == 0 {
		return answer{}, errNoneChosen()
	}
	if f.Get("sure") != "true" {
		c.audit.Operation = "" // so far nothing was done
		page := deletePage{Dir: url.PathEscape(dir), Back: back}
		for _, name := range names {
			page.Keys, page.Shown = append(page.Keys, url.PathEscape(name)), append(page.Shown, visible(name))
		}
		return show("delete", page), nil
	}
	err = p.edits.DeleteFiles(context.WithoutCancel(c.ctx()), c.owner, c.app.ID, names)
	return done(back, c.lang.Count(len(names), "%d file was deleted.", "%d files were deleted.", len(names))), err
}

func errNoneChosen() error { return app.Errorf(app.Invalid, "choose the files first") }

// back is the directory that a form was sent from, for its refusal.
func (p filePages) back(c *call) (answer, error) {
	dir, _, err := chosen(c, c.Request.PostForm)
	if err != nil {
		return answer{}, err
	}
	return p.listOf(c, dir)
}
