package panel

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/web"
)

const (
	// accountTurns is how many ZIPs of one account are packed or unpacked at once, and how many of its logs are
	// searched, allTurns those of all: each takes a processor, or room on the disk. ZIPs that are on their way take
	// nobody's turn but their account's.
	accountTurns = 2
	allTurns     = 8
	// packTime is how long a ZIP may be on its way while it is packed: readers that stand still would keep others out.
	packTime = time.Hour
)

// turns counts what is under way. It is safe for concurrent use.
type turns struct {
	most int      // of all accounts
	full app.Text // the sentence for an account that has to wait

	mu  sync.Mutex
	all int
	of  map[app.AccountID]int
}

func newTurns(most int, full app.Text) *turns {
	return &turns{most: most, full: full, of: map[app.AccountID]int{}}
}

// zipTurns are turns of ZIPs.
func zipTurns(most int) *turns {
	return newTurns(most, app.Textf("as many ZIPs are being packed and unpacked as may be at once; try again in a minute"))
}

// begin takes a turn, which end gives back; it fails with app.Limited.
func (t *turns) begin(account app.AccountID) (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[account] >= accountTurns || t.all >= t.most {
		return nil, &app.Error{Kind: app.Limited, Message: t.full}
	}
	t.all++
	t.of[account]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.of[account]--; t.of[account] == 0 {
			delete(t.of, account)
		}
	}, nil
}

// zip sends a directory as a ZIP, which is made while it is sent.
func (p filePages) zip(c *call) (answer, error) {
	dir, err := place(c)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("path=%.200q zip=true", dir)
	if _, _, err := p.contents.List(c.app.ID, c.app.UID, dir); err != nil {
		return answer{}, err
	}
	name := path.Base(dir)
	if dir == "." {
		name = string(c.app.ID)
	}
	end, err := p.packs.begin(c.account.ID)
	if err != nil {
		return answer{}, err
	}
	attach(c, "application/zip", name+".zip")
	return answer{stream: func() {
		defer end()
		c.WriteHeader(http.StatusOK)
		if c.Request.Method == http.MethodHead {
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx(), packTime)
		defer cancel()
		if err := p.contents.PackDir(ctx, c.app.ID, c.app.UID, dir, patient{c, web.Patience}); err != nil {
			panic(http.ErrAbortHandler) // or the browser would keep a part as the whole
		}
	}}, nil
}

// attach sets the headers of a file that is kept and never shown.
func attach(c *call, kind, name string) {
	h := c.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": strings.ToValidUTF8(name, "_")})
	if disposition == "" {
		disposition = "attachment"
	}
	h.Set("Content-Disposition", disposition)
}

// unzipPage is the data of unzip.html.
type unzipPage struct {
	Dir, Key, Back string
	Name           string
	Taken          int
	Names          []string // of the first of them
}

// Untold is how many are not named.
func (p unzipPage) Untold() int { return p.Taken - len(p.Names) }

// unzip unpacks a ZIP of the application's into the directory that it is in, and first asks whether files are to be
// replaced.
func (p filePages) unzip(c *call, f url.Values) (answer, error) {
	dir, _, err := chosen(c, f)
	if err != nil {
		return answer{}, err
	}
	name, err := url.PathUnescape(f.Get("zip"))
	if err != nil {
		return answer{}, app.Errorf(app.Invalid, "the form could not be read")
	}
	c.audit.Note("zip=%.200q", name)
	end, err := p.turns.begin(c.account.ID)
	if err != nil {
		return answer{}, err
	}
	defer end()
	source, _, err := p.contents.OpenFile(c.app.ID, c.app.UID, name)
	if err != nil {
		return answer{}, err
	}
	// A copy, which the program cannot change while it is read.
	file, err := p.spools.Spool(c.ctx(), source)
	_ = source.Close() // only read
	if err != nil {
		return answer{}, err
	}
	done, err := p.unpacked(c, dir, file, f.Get("replace") == "true")
	if err != nil {
		return answer{}, err
	}
	if done.Taken > 0 {
		c.audit.Operation = "" // so far nothing was done
		page := unzipPage{
			Dir: url.PathEscape(dir), Key: url.PathEscape(name), Name: visible(path.Base(name)), Taken: done.Taken,
			Back: c.at("files?") + query("path", dir),
		}
		for _, taken := range done.Names {
			page.Names = append(page.Names, visible(taken))
		}
		return show("unzip", page), nil
	}
	return p.unzipped(c, dir, done), nil
}

// unpacked unpacks a spooled ZIP.
func (p filePages) unpacked(c *call, dir, file string, replace bool) (app.Unzipped, error) {
	if replace {
		c.audit.Note("replace=true")
	}
	done, err := p.edits.Unzip(context.WithoutCancel(c.ctx()), c.owner, c.app.ID, dir, file, replace)
	if err == nil && done.Taken == 0 {
		c.audit.Note("files=%d", done.Files)
	}
	return done, err
}

func (p filePages) unzipped(c *call, dir string, done app.Unzipped) answer {
	return toDir(c, dir, c.lang.Count(done.Files, "%d file was unpacked.", "%d files were unpacked.", done.Files))
}

// toDir leads to a directory, with a sentence.
func toDir(c *call, dir, sentence string) answer {
	return done(c.at("files?")+query("path", dir), sentence)
}

// sendZip unpacks a ZIP of a form into the directory that is shown.
func (p filePages) sendZip(c *call) (answer, error) {
	dir, err := place(c)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("path=%.200q", dir)
	if c.Request.ContentLength > p.maxUpload {
		return answer{}, errTooLarge(p.maxFile)
	}
	end, err := p.sends.begin(c.account.ID)
	if err != nil {
		return answer{}, err
	}
	defer end()
	replace := false
	u := fileForm()
	u.MaxBody, u.MaxFile, u.Spool, u.DropSpool = p.maxUpload, p.maxFile, p.spools.Spool, p.spools.DropSpool
	u.Field = func(name, text string) error {
		replace = replace || name == "replace" && text == "true"
		return nil
	}
	file, err := u.Take(&c.Call)
	if err != nil {
		return answer{}, err
	}
	result, err := p.unpacked(c, dir, file, replace)
	if err != nil {
		return answer{}, err
	}
	if result.Taken > 0 {
		return answer{}, app.Errorf(app.Conflict,
			"nothing was unpacked: %d of the files are here already, %q for one; choose to replace files, and send the ZIP again", result.Taken, result.Names[0])
	}
	return p.unzipped(c, dir, result), nil
}
