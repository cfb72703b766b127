package httpapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/app"
	"berth/web"
)

const (
	logLinkLife = time.Hour
	noStore     = "private, no-store"
)

// downloads are the routes that make addresses of logs and backups, and what they lead to.
type downloads struct {
	apps        app.Applications
	deployments app.Deployments
	contents    app.Contents
	links       app.Links
	baseURL     string
	ttl         time.Duration // of backups
}

func (d downloads) logs(c *call) (response, error) {
	snap, err := d.apps.App(c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	l, err := d.logsOf(c, snap)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The logs of your application have been loaded."), member{"apps", l})
}

func (d downloads) logsOfAll(c *call) (response, error) {
	list, err := values(each(c.Request.Context(), c.all, readers, func(snap app.Snapshot) (object, error) {
		return d.logsOf(c, snap)
	}))
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The logs of your applications have been loaded."), member{"apps", list})
}

func (d downloads) logsOf(c *call, snap app.Snapshot) (object, error) {
	base, err := c.base(d.baseURL)
	if err != nil {
		return nil, err
	}
	t, err := d.apps.Terminal(snap.Account, snap.ID)
	if err != nil {
		return nil, err
	}
	link := app.Link{Kind: app.LinkLog, Object: string(snap.ID), Version: int64(snap.UID), Expires: c.now().Add(logLinkLife)}
	url := base + "/d/" + d.links.Sign(link) + "/" + string(snap.ID) + ".log"
	return object{{"id", snap.ID}, {"terminal", object{{"big", t.Big}, {"small", t.Small}, {"url", url}}}}, nil
}

func (d downloads) backup(c *call) (response, error) {
	withVariables, err := wantsVariables(c)
	if err != nil {
		return response{}, err
	}
	if c.head() { // a question must not leave a file behind
		_, err := d.apps.App(c.owner(), c.id)
		return response{status: http.StatusOK}, err
	}
	base, err := c.base(d.baseURL)
	if err != nil {
		return response{}, err
	}
	b, err := d.deployments.Backup(c.Request.Context(), c.owner(), c.id, withVariables)
	if err != nil {
		return response{}, err
	}
	message := c.say("The backup of your application was created.")
	if withVariables {
		message += " " + c.say("It holds the environment variables, unencrypted, in %s.", app.VariablesFile)
	}
	message += " " + c.say("The link is open until %s.", timestamp(b.Expires))
	return ok(message, member{"backups", d.backupOf(base, b)})
}

func (d downloads) backupOfAll(c *call) (response, error) {
	withVariables, err := wantsVariables(c)
	if err != nil {
		return response{}, err
	}
	if c.head() {
		return response{status: http.StatusOK}, nil
	}
	base, err := c.base(d.baseURL)
	if err != nil {
		return response{}, err
	}
	results := each(c.Request.Context(), c.all, archivers, func(snap app.Snapshot) (app.Backup, error) {
		return d.deployments.Backup(c.Request.Context(), snap.Account, snap.ID, withVariables)
	})
	keepParts(&c.audit, results)
	list := []object{}
	var first error
	var failures strings.Builder
	for _, r := range results {
		if r.err == nil {
			list = append(list, d.backupOf(base, r.value))
			continue
		}
		first = cmp.Or(first, r.err)
		_, message, _ := c.explain(r.err)
		failures.WriteString(" " + sentence(c.say("%s failed: %s", r.of.ID, message)))
	}
	if len(list) == 0 && first != nil {
		return response{}, first
	}
	message := c.say("The backups of %v were created.", counted(len(list), "%d application", "%d applications"))
	if withVariables {
		message += " " + c.say("They hold the environment variables, unencrypted, in %s.", app.VariablesFile)
	}
	if len(results) == 0 {
		message = c.say(noApplications)
	}
	return ok(message+failures.String(), member{"backups", list})
}

// kept lists the backups that are still there. They may hold the environment variables, so
// they are the owner's alone.
func (d downloads) kept(c *call) (response, error) {
	if _, err := d.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	base, err := c.base(d.baseURL)
	if err != nil {
		return response{}, err
	}
	all, err := d.contents.Backups(c.id, d.ttl)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The backups of your application have been loaded."), member{"backups", convert(all, func(b app.Backup) object {
		return append(d.backupOf(base, b), object{{"bytes", b.Bytes}, {"expires", timestamp(b.Expires)}}...)
	})})
}

// backupOf shows a backup. Clients that save all backups skip those without the status "ok".
func (d downloads) backupOf(base string, b app.Backup) object {
	link := app.Link{Kind: app.LinkBackup, Object: b.File, Expires: b.Expires}
	return object{{"id", b.App}, {"url", base + "/d/" + d.links.Sign(link) + "/" + string(b.App) + ".zip"}, {"status", statusOK}}
}

// wantsVariables reports whether the environment variables are asked for. They
// are the owner's alone: no permission of a member shows them.
func wantsVariables(c *call) (bool, error) {
	switch is, err := asked(c, "env"); {
	case err != nil || !is:
		return false, err
	case c.asMember || c.token.Bounds != nil:
		return false, app.Errorf(app.Forbidden, "A backup with the environment variables is only for the application's owner. Ask for one without env=true.")
	}
	c.audit.Note("env=true")
	return true, nil
}

// asked returns the parameter of a query that is true or false.
func asked(c *call, name string) (bool, error) {
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	switch values := query[name]; {
	case err == nil && (len(values) == 0 || slices.Equal(values, []string{"false"})):
		return false, nil
	case err != nil || !slices.Equal(values, []string{"true"}):
		return false, app.Errorf(app.Invalid, "The parameter %s must be given once, as true or false.", name)
	}
	return true, nil
}

// serve answers with what a link points to. The name is for the client's disk; it
// must be one that this package gave out.
func (d downloads) serve(c *call) (response, error) {
	link, err := d.links.Verify(c.params.ByName("token"))
	if err != nil {
		return response{}, err
	}
	name := c.params.ByName("name")
	switch id, zip := strings.CutSuffix(name, ".zip"); {
	case link.Kind == app.LinkLog && name == link.Object+".log":
		return d.serveLog(c, link)
	case link.Kind == app.LinkBackup && zip && app.ValidID(id):
		return d.serveBackup(c, link, name)
	}
	return response{}, app.Errorf(app.NotFound, "This link is not valid or has expired.")
}

func (d downloads) serveLog(c *call, link app.Link) (response, error) {
	log, err := d.apps.OpenLog(app.ID(link.Object), link.Version)
	if err != nil {
		return response{}, err
	}
	header := map[string]string{"Cache-Control": noStore, "Content-Type": "text/plain; charset=utf-8"}
	return response{header: header, stream: func(w http.ResponseWriter) {
		defer func() { _ = log.Close() }() // only read, so nothing can be lost
		out := newTap(w)
		defer out.done()
		out.WriteHeader(http.StatusOK)
		if c.head() {
			return
		}
		source := &web.ErrReader{Reader: log}
		if _, err := io.Copy(out, source); err == nil {
			return
		}
		if source.Err != nil && !errors.Is(source.Err, io.EOF) {
			c.log.Error("cannot read a log", "request", c.RequestID, "cause", source.Err)
		}
		panic(http.ErrAbortHandler) // or the client takes the part for the whole
	}}, nil
}

func (d downloads) serveBackup(c *call, link app.Link, name string) (response, error) {
	file, made, err := d.contents.OpenBackup(link.Object)
	if err != nil {
		return response{}, err
	}
	sum := sha256.Sum256([]byte(link.Object)) // a backup's name is never used for another content
	header := map[string]string{
		"Cache-Control":       noStore,
		"Content-Type":        "application/zip",
		"Content-Disposition": `attachment; filename="` + name + `"`,
		"ETag":                `"` + hex.EncodeToString(sum[:16]) + `"`,
	}
	return response{header: header, stream: func(w http.ResponseWriter) {
		serveFile(c, w, file, made)
	}}, nil
}

func serveFile(c *call, w http.ResponseWriter, file io.ReadSeekCloser, made time.Time) {
	defer func() { _ = file.Close() }() // only read, so nothing can be lost
	out := newTap(w)
	defer out.done()
	http.ServeContent(out, c.Request, "", made, file)
	if out.refused != 0 {
		// net/http takes back some headers of the file, not all.
		for _, name := range []string{"ETag", "Last-Modified", "Content-Disposition"} {
			c.Header().Del(name)
		}
		c.Header().Set("Cache-Control", noStore)
		message := app.Textf("The file is not the one that the request names.")
		if out.refused == http.StatusRequestedRangeNotSatisfiable {
			message = app.Textf("The file has no such part.")
		}
		c.send(c.refusal(out.refused, message))
	}
}

// tap is the writer of a download. It renews the deadline at each write, so a
// client that takes nothing cannot hold a file open, and it holds back refusals,
// which net/http would write as plain text.
type tap struct {
	http.ResponseWriter
	control *http.ResponseController
	refused int
}

func newTap(w http.ResponseWriter) *tap {
	return &tap{ResponseWriter: w, control: http.NewResponseController(w)}
}

// WriteHeader passes on what is no refusal.
func (t *tap) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		t.refused = status
		return
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tap) Write(p []byte) (int, error) {
	if t.refused != 0 {
		return len(p), nil
	}
	_ = t.control.SetWriteDeadline(time.Now().Add(web.Patience)) // see call.boundBody
	return t.ResponseWriter.Write(p)
}

// done sends what is buffered while the deadline holds, then lifts it: the
// connection may go on to serve somebody who does not renew it.
func (t *tap) done() {
	if t.refused == 0 && t.control.Flush() != nil {
		return
	}
	_ = t.control.SetWriteDeadline(time.Time{}) // see call.boundBody
}
