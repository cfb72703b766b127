package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Backup is a ZIP with the files of an application, on the server.
type Backup struct {
	URL     string    `json:"url"`     // opens without a token until it expires
	Bytes   int64     `json:"bytes"`   // of the ZIP
	Expires time.Time `json:"expires"` // when the server deletes it
}

// MakeBackup makes a backup, with the environment variables in plain if withVariables is
// true, and blocks until it is there. Its size and end are not known.
func (c *Client) MakeBackup(ctx context.Context, a App, withVariables bool) (made Backup, message string, err error) {
	path := a.Path("backup")
	if withVariables {
		path += "?env=true"
	}
	var answer struct {
		Message string
		Backups Backup
	}
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Backups, answer.Message, err
}

// Backups lists the backups that are on the server, the newest first.
func (c *Client) Backups(ctx context.Context, a App) ([]Backup, error) {
	path, err := a.ownPath("backups")
	if err != nil {
		return nil, err
	}
	var answer struct{ Backups []Backup }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Backups, err
}

// Download writes a backup to a writer, and returns how many bytes it has. It asks the
// client's own server, however that is called in the backup's address. What comes to less
// than the server said is an ErrNoServer.
func (c *Client) Download(ctx context.Context, b Backup, to io.Writer) (int64, error) {
	u, err := url.Parse(b.URL)
	if err != nil || !strings.HasPrefix(u.Path, "/d/") {
		return 0, failed(ErrNotBerth, err, "cannot use %s: it has named a backup in another form than berth's", c.origin())
	}
	resp, err := c.Send(ctx, http.MethodGet, u.EscapedPath(), "", nil, 0, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	got := &received{to: to}
	n, err := io.Copy(got, resp.Body)
	switch {
	case got.failed != nil:
		return n, got.failed
	case ctx.Err() != nil:
		return n, ctx.Err()
	case err == nil && resp.ContentLength >= 0 && n < resp.ContentLength:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return n, failed(ErrNoServer, err, "the connection to %s ended after %d of %d bytes: %v", c.origin(), n, resp.ContentLength, err)
	}
	return n, nil
}

// received tells a write that failed from a read that did.
type received struct {
	to     io.Writer
	failed error
}

// Write implements io.Writer.
func (r *received) Write(b []byte) (int, error) {
	n, err := r.to.Write(b)
	r.failed = errors.Join(r.failed, err)
	return n, err
}

// Snapshot is a copy of an application in the nightly backup of the host.
type Snapshot struct {
	Name string    `json:"snapshot"` // which commands take
	Date time.Time `json:"date"`     // when the backup began
	Size int64     `json:"size"`     // bytes of the files in it
}

// Snapshots lists the nightly snapshots of an application, the newest first.
func (c *Client) Snapshots(ctx context.Context, a App) ([]Snapshot, error) {
	path, err := a.ownPath("snapshots")
	if err != nil {
		return nil, err
	}
	var answer struct{ Snapshots []Snapshot }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Snapshots, err
}

// restoring is the body of a request that restores what the server has.
func restoring(u Upload) (string, error) {
	from := map[string]any{"snapshot": u.Snapshot, "env": u.Env}
	if u.Backup != nil {
		from = map[string]any{"backup": u.Backup.URL, "env": u.Env}
	}
	text, err := json.Marshal(from)
	if err != nil {
		return "", fmt.Errorf("cannot write the request: %w", err)
	}
	return string(text), nil
}
