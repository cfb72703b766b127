package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// berth is a berth serve with a data directory, user ids and ports of its own.
type berth struct {
	fleet
	binary string
	args   []string
	zip    []byte // what it runs
	base   string // http://...
	token  string
	server *server
	web    *http.Client
}

// slots keep the ranges of daemons that run at the same time apart.
var slots atomic.Int64

const (
	slotUIDs  = 2000
	slotPorts = 1100
)

func (b *bench) newBerth(_ context.Context, p plan) (manager, error) {
	dir, err := b.fresh("berth")
	if err != nil {
		return nil, err
	}
	d := &berth{fleet: fleet{plan: p, name: "berth", dir: dir, log: filepath.Join(dir, "daemon.log")}, binary: b.berth}
	if p.count > 0 {
		if d.zip, err = b.bundle(p.program, p.restart); err != nil {
			return nil, err
		}
	}
	uid := 200000 + int(slots.Add(1))*slotUIDs
	port := 20000 + int(slots.Load()%8)*slotPorts
	d.args = append([]string{
		d.binary, "serve", "--data-dir", d.data(), "--listen", "127.0.0.1:0", "--rate-limit", "1000000",
		"--apps-ok-delay", "1ms", "--host-overcommit", "100",
		"--apps-uid-base", strconv.Itoa(uid), "--apps-uid-count", strconv.Itoa(slotUIDs),
		"--apps-port-first", strconv.Itoa(port), "--apps-port-last", strconv.Itoa(port + slotPorts - 1),
	}, p.flags...)
	d.web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	return d, nil
}

func (d *berth) data() string { return filepath.Join(d.dir, "data") }

func (d *berth) home(id string) string { return filepath.Join(d.data(), "apps", id) }

// appOf is the id of the application with a directory.
func appOf(dir string) string { return filepath.Base(dir) }

var listening = regexp.MustCompile(`listening on (http://[0-9.:]+)`)

// boot starts the daemon, and the first time uploads what it shall run; later
// it runs that of itself.
func (d *berth) boot(ctx context.Context) error {
	if err := d.listen(ctx); err != nil || d.token != "" {
		return err
	}
	if _, err := d.berth(ctx, "account", "create", "bench", "--ram", "1000000"); err != nil {
		return err
	}
	token, err := d.berth(ctx, "token", "create", "bench")
	if err != nil {
		return err
	}
	d.token = strings.TrimSpace(token)
	return d.grow(ctx, d.count)
}

// listen starts the daemon and waits until it answers.
func (d *berth) listen(ctx context.Context) error {
	var err error
	d.server, err = serve(d.dir, d.log, d.args...)
	if err != nil {
		return err
	}
	d.pid = d.server.cmd.Process.Pid
	return until(ctx, "the daemon listens", func() (bool, error) {
		text, err := os.ReadFile(d.server.log)
		if m := listening.FindSubmatch(text); m != nil {
			d.base = string(m[1])
			return true, err
		}
		return false, errors.Join(err, d.server.hasEnded())
	})
}

// berth is a command on the daemon's data.
func (d *berth) berth(ctx context.Context, args ...string) (string, error) {
	return command(ctx, d.dir, nil, append([]string{d.binary}, append(args, "--data-dir", d.data())...)...)
}

// grow uploads programs until there are as many as that.
func (d *berth) grow(ctx context.Context, count int) error {
	ids := make([]string, max(count-len(d.dirs), 0))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i := range ids {
		g.Go(func() (err error) {
			ids[i], err = d.upload(ctx, bytes.NewReader(d.zip), int64(len(d.zip)))
			return err
		})
	}
	err := g.Wait()
	for _, id := range ids {
		if id != "" {
			d.dirs = append(d.dirs, d.home(id))
		}
	}
	if len(d.dirs) > 0 {
		d.printed = filepath.Join(d.data(), "logs", appOf(d.dirs[0]), "run.log*")
	}
	return err
}

// upload makes an application of a ZIP and returns its id.
func (d *berth) upload(ctx context.Context, zip io.Reader, size int64) (string, error) {
	var frame bytes.Buffer
	w := multipart.NewWriter(&frame)
	_, err := w.CreateFormFile("file", "app.zip")
	head := frame.Len()
	if err := errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	text := frame.Bytes()
	body := io.MultiReader(bytes.NewReader(text[:head]), zip, bytes.NewReader(text[head:]))
	r, err := d.request(ctx, http.MethodPost, "/v2/upload", body)
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.ContentLength = int64(len(text)) + size
	var answer struct{ App struct{ ID string } }
	err = d.send(r, &answer)
	return answer.App.ID, err
}

func (d *berth) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, d.base+path, body)
	if err == nil {
		r.Header.Set("api-token", d.token)
	}
	return r, err
}

// send makes a request and reads the answer, which must be good, into a value.
func (d *berth) send(r *http.Request, into any) error {
	resp, err := d.web.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, resp.Status, body)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// ask sends a request without a body.
func (d *berth) ask(ctx context.Context, method, path string, into any) error {
	r, err := d.request(ctx, method, path, nil)
	if err != nil {
		return err
	}
	return d.send(r, into)
}

func (d *berth) startAll(ctx context.Context) error {
	return d.ask(ctx, http.MethodPut, "/v2/app/all/start", nil)
}

func (d *berth) stopAll(ctx context.Context) error {
	return d.ask(ctx, http.MethodPut, "/v2/app/all/stop", nil)
}

func (d *berth) down(context.Context) error {
	d.web.CloseIdleConnections()
	s := d.server
	d.server = nil
	if err := s.end(); err != nil {
		return fmt.Errorf("the daemon: %w", err)
	}
	return nil
}
