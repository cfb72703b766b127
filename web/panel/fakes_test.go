package panel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// otherNames leaves the method Names its name.
type otherNames = app.Names

// apps is every service of applications, in memory. It records what was done.
type apps struct {
	app.Applications // with the other four: what the panel never asks for
	app.Settings
	app.Deployments
	app.Links
	otherNames

	mu       sync.Mutex
	all      map[app.ID]app.Snapshot
	fail     error // of what changes something
	done     []string
	env      map[string]string
	spooled  map[string]string // file to content
	dropped  int
	deployed func(ctx context.Context, file string) (app.Deployed, error)         // what a deployment does
	drafted  func(ctx context.Context, fields app.ConfigField) (app.Draft, error) // what Draft says; nil for a config without a fault
	firsts   []app.First
	wanted   []app.Wanted
	output   string
	made     []app.Backup
	nights   []app.BackupSnapshot
	unread   error // of nights
	domains  []app.Domain
	tree     map[string][]app.Entry
	texts    map[string]string
	busy     bool // every write is refused for it
}

func newApps() *apps {
	return &apps{
		all: map[app.ID]app.Snapshot{}, env: map[string]string{}, spooled: map[string]string{},
		tree: map[string][]app.Entry{}, texts: map[string]string{},
	}
}

// act records what is done to an application of owner, unless it is to fail.
func (h *apps) on(owner app.AccountID, id app.ID, what string) error {
	if _, err := h.App(owner, id); err != nil {
		return err
	}
	return h.act(what, id)
}

func (h *apps) SetProfile(_ context.Context, owner app.AccountID, id app.ID, p app.Profile) error {
	return h.on(owner, id, "profile "+*p.Name+" "+*p.AvatarURL)
}

func (h *apps) SetAutoRestart(_ context.Context, owner app.AccountID, id app.ID, on bool) error {
	return h.on(owner, id, fmt.Sprint("autorestart ", on))
}

func (h *apps) Delete(_ context.Context, owner app.AccountID, id app.ID) error {
	return h.on(owner, id, "delete")
}

func (h *apps) Variables(_ context.Context, owner app.AccountID, id app.ID) ([]app.Variable, error) {
	if _, err := h.App(owner, id); err != nil {
		return nil, err
	}
	var all []app.Variable
	for name, value := range h.env {
		all = append(all, app.Variable{Name: name, Value: value})
	}
	slices.SortFunc(all, func(a, b app.Variable) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (h *apps) SetVariables(_ context.Context, owner app.AccountID, id app.ID, change map[string]*string) error {
	err := h.on(owner, id, "set variables")
	for name, value := range change {
		if err == nil {
			h.env[name] = *value
		}
	}
	return err
}

func (h *apps) RemoveVariable(_ context.Context, owner app.AccountID, id app.ID, name string) error {
	if _, there := h.env[name]; !there {
		return app.Errorf(app.NotFound, "there is no such variable")
	}
	err := h.on(owner, id, "remove variable")
	if err == nil {
		delete(h.env, name)
	}
	return err
}

func (h *apps) Spool(_ context.Context, r io.Reader) (string, error) {
	var b bytes.Buffer
	if _, err := io.Copy(&b, r); err != nil {
		return "", fmt.Errorf("cannot read the upload: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	file := fmt.Sprint("spool-", len(h.spooled))
	h.spooled[file] = b.String()
	return file, nil
}

func (h *apps) DropSpool(string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped++
}

func (h *apps) Draft(ctx context.Context, _ app.Account, _ string, fields app.ConfigField) (app.Draft, error) {
	if h.drafted == nil {
		return app.Draft{Found: true}, nil
	}
	return h.drafted(ctx, fields)
}

func (h *apps) Upload(ctx context.Context, _ app.Account, file string) (app.Deployed, error) {
	h.mu.Lock()
	h.firsts, h.wanted = append(h.firsts, app.FirstOf(ctx)), append(h.wanted, app.WantedOf(ctx))
	h.mu.Unlock()
	if err := h.act("upload "+h.spooled[file], "new"); err != nil {
		return app.Deployed{}, err
	}
	return h.deployed(ctx, file)
}

func (h *apps) Commit(ctx context.Context, owner app.AccountID, id app.ID, file string, exact bool) (app.Deployed, error) {
	what := "commit "
	if exact {
		what = "exact "
	}
	if err := h.on(owner, id, what+h.spooled[file]); err != nil {
		return app.Deployed{}, err
	}
	return h.deployed(ctx, file)
}

func (h *apps) Restore(ctx context.Context, owner app.AccountID, id app.ID, file string, withVariables bool) (app.Deployed, error) {
	if err := h.on(owner, id, fmt.Sprint("restore ", h.spooled[file], " ", withVariables)); err != nil {
		return app.Deployed{}, err
	}
	return h.deployed(ctx, file)
}

func (h *apps) Backup(_ context.Context, owner app.AccountID, id app.ID, withVariables bool) (app.Backup, error) {
	return app.Backup{App: id, File: string(id) + ".made.zip"}, h.on(owner, id, fmt.Sprint("backup ", withVariables))
}

func (h *apps) Backups(app.ID, time.Duration) ([]app.Backup, error) { return h.made, nil }

func (h *apps) OpenBackup(file string) (io.ReadSeekCloser, time.Time, error) {
	return struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader("content of " + file), io.NopCloser(nil)}, time.Time{}, nil
}

func (h *apps) Sign(l app.Link) string { return "signed-" + l.Object }

func (h *apps) Names(context.Context, app.AccountID) (app.NameList, error) {
	return app.NameList{Domains: h.domains}, nil
}

func (h *apps) Domain(_ context.Context, owner app.AccountID, name string) (app.Domain, error) {
	for _, d := range h.domains {
		if d.Name == name && d.Account == owner {
			return d, nil
		}
	}
	return app.Domain{}, app.Errorf(app.NotFound, "you have no such domain")
}

func (h *apps) ClaimDomain(_ context.Context, owner app.AccountID, id app.ID, name string) (app.Domain, error) {
	if !strings.Contains(name, ".") {
		return app.Domain{}, app.Errorf(app.Invalid, "this is no domain")
	}
	return app.Domain{Name: name, App: id, Account: owner}, h.on(owner, id, "claim "+name)
}

func (h *apps) RemoveDomain(_ context.Context, _ app.AccountID, name string) error {
	return h.act("remove", app.ID(name))
}

func (h *apps) VerifyDomain(ctx context.Context, owner app.AccountID, name string) (app.Domain, error) {
	d, err := h.Domain(ctx, owner, name)
	return d, errors.Join(err, h.act("verify", app.ID(name)))
}

func (h *apps) List(_ app.ID, _ int, path string) ([]app.Entry, bool, error) {
	list, there := h.tree[path]
	if !there {
		return nil, false, app.Errorf(app.NotFound, "there is no such file")
	}
	return list, path == "many", nil
}

func (h *apps) OpenFile(_ app.ID, _ int, path string) (io.ReadCloser, int64, error) {
	text, there := h.texts[path]
	if !there {
		return nil, 0, app.Errorf(app.NotFound, "there is no such file")
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}

func (h *apps) MakeDir(_ context.Context, owner app.AccountID, id app.ID, path string) error {
	return h.on(owner, id, "make "+path)
}

func (h *apps) MoveFile(_ context.Context, owner app.AccountID, id app.ID, from, to string) error {
	return h.on(owner, id, "move "+from+" to "+to)
}

func (h *apps) DeleteFiles(_ context.Context, owner app.AccountID, id app.ID, paths []string) error {
	return h.on(owner, id, "delete "+strings.Join(paths, ","))
}

func (h *apps) WriteFile(_ context.Context, owner app.AccountID, id app.ID, path string, data []byte, over app.Over) error {
	was, there := h.texts[path]
	switch {
	case h.busy:
		return app.Errorf(app.Conflict, "the application is being deployed; try again in a moment")
	case over == app.OverAny, !there && over == app.OverNothing:
	case there && over == app.OverNothing:
		return app.Errorf(app.Conflict, "something has this name already")
	case !there || over != app.OverText([]byte(was)):
		return app.Errorf(app.Conflict, "the file was changed meanwhile, so nothing was written")
	}
	err := h.on(owner, id, "write "+path)
	if err == nil {
		h.texts[path] = string(data)
	}
	return err
}

func (h *apps) PackDir(_ context.Context, _ app.ID, _ int, path string, w io.Writer) error {
	_, err := io.WriteString(w, "PK "+path)
	return err
}

func (h *apps) Unzip(_ context.Context, owner app.AccountID, id app.ID, path, file string, replace bool) (app.Unzipped, error) {
	if path == "src" && !replace {
		return app.Unzipped{Taken: 21, Names: []string{"a\u202e<b>", "c"}}, nil
	}
	return app.Unzipped{Files: 3}, h.on(owner, id, "unzip "+file+" into "+path)
}

// zipForm is a form with a file, and the fields before it.
func zipForm(t testing.TB, content string, fields ...string) (body []byte, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		must(t, w.WriteField(fields[i], fields[i+1]))
	}
	part, err := w.CreateFormFile("file", "app.zip")
	must(t, err)
	_, err = io.WriteString(part, content)
	must(t, err)
	must(t, w.Close())
	return b.Bytes(), w.FormDataContentType()
}

// sendTo posts a body of a kind.
func (b *browser) sendTo(path, kind string, body io.Reader) page {
	r := httptest.NewRequest(http.MethodPost, b.base+path, body)
	r.RemoteAddr, r.TLS = b.peer, nil
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// fakeSettings are settings of the host in memory.
type fakeSettings struct {
	all  []app.HostSetting
	fail error
}

func (f *fakeSettings) HostSettings(context.Context) ([]app.HostSetting, error) { return f.all, nil }

func (f *fakeSettings) SetHostSettings(_ context.Context, values map[string]string) (changed []app.HostSetting, err error) {
	if f.fail != nil {
		return nil, f.fail
	}
	for i, h := range f.all {
		if v, ok := values[h.Key]; ok && v != h.Value {
			f.all[i].Value, f.all[i].Waits = v, true
			changed = append(changed, app.HostSetting{Key: h.Key, Value: v, Default: h.Value})
		}
	}
	return changed, nil
}
