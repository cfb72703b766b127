package httpapi

import (
	"context"
	"net/http"
	"sync"

	"berth/app"
	"berth/web"
)

const (
	howToUpload   = "Send the ZIP file as multipart/form-data, in a part that has a file name."
	brokenUpload  = "The upload ended early or is not well-formed multipart/form-data."
	missingUpload = "missing required file: no part of the request has a file name. " + howToUpload
)

type uploadAnswer struct {
	Status     string   `json:"status"`
	StatusCode int      `json:"statusCode"`
	Message    string   `json:"message"`
	App        uploaded `json:"app"`
	Logs       string   `json:"logs,omitempty"`
}

type uploaded struct {
	ID               app.ID   `json:"id"`
	Type             app.Type `json:"type"`
	Name             string   `json:"name"`
	AvatarURL        string   `json:"avatarURL"`
	RAM              app.MB   `json:"ram"`
	MainFile         string   `json:"mainFile"`
	Lang             string   `json:"lang"`
	Version          string   `json:"version"`
	AddedAtTimestamp int64    `json:"addedAtTimestamp"` // milliseconds
	AutoRestart      bool     `json:"autoRestart"`
}

type commitAnswer struct {
	Status     string `json:"status"`
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
	Logs       string `json:"logs,omitempty"`
}

func (s *server) upload(c *call) (response, error) {
	file, err := s.spool(c)
	if err != nil {
		return response{}, err
	}
	// The file is here; whether the client waits for the answer changes nothing.
	d, err := s.Deployments.Upload(context.WithoutCancel(c.Request.Context()), c.account, file)
	if err != nil {
		return response{}, err
	}
	c.about(d.Snapshot)
	return ok(uploadAnswer{
		Status:     statusOK,
		StatusCode: http.StatusOK,
		Message:    c.tell(outcome(app.Textf("Your application was uploaded"), d.Snapshot, s.Now())),
		App:        uploadedOf(d),
		Logs:       d.Logs,
	})
}

func uploadedOf(d app.Deployed) uploaded {
	return uploaded{
		ID:               d.ID,
		Type:             d.Type,
		Name:             d.Name,
		AvatarURL:        d.AvatarURL,
		RAM:              d.RAM,
		MainFile:         d.Code.Main,
		Lang:             d.Code.Lang,
		Version:          d.Code.Version,
		AddedAtTimestamp: d.CreatedAt.UnixMilli(),
		AutoRestart:      d.AutoRestart,
	}
}

func (s *server) commit(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := s.Applications.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	file, err := s.spool(c)
	if err != nil {
		return response{}, err
	}
	d, err := s.handOver(context.WithoutCancel(c.Request.Context()), c, file)
	if err != nil {
		return response{}, err
	}
	return ok(commitAnswer{statusOK, http.StatusOK, c.tell(outcome(app.Textf("Your application was updated"), d.Snapshot, s.Now())), d.Logs})
}

// handOver commits what was spooled, unless the member who sent it was taken
// out of the team meanwhile: a file can be long on its way.
func (s *server) handOver(ctx context.Context, c *call, file string) (app.Deployed, error) {
	if c.mayStill != nil {
		if err := c.mayStill(); err != nil {
			s.Deployments.DropSpool(file)
			return app.Deployed{}, err
		}
	}
	return s.Deployments.Commit(app.WithActor(ctx, c.account.ID), c.owner(), c.id, file)
}

// spool streams the first file of a multipart body to the deployer and returns
// the name of what it kept. The caller MUST hand it over.
func (s *server) spool(c *call) (string, error) {
	return s.spoolWith(c, nil)
}

// spoolWith is spool, and calls field with the name and the text of each part
// that comes before the file.
func (s *server) spoolWith(c *call, field func(name, text string) error) (string, error) {
	if c.Request.ContentLength > s.MaxUpload {
		return "", tooLargeError(s.MaxUpload)
	}
	give, err := s.uploads.take(c.account.ID)
	if err != nil {
		return "", err
	}
	defer give()
	u := web.Upload{
		MaxBody: s.MaxUpload, MaxFile: s.MaxFile, Field: field, Spool: s.Deployments.Spool, DropSpool: s.Deployments.DropSpool,
		NoForm:  app.Errorf(app.Invalid, howToUpload),
		NoFile:  app.Errorf(app.NotFound, missingUpload),
		Crowded: app.Errorf(app.Invalid, "There is too much before the file. %s", app.Textf(howToUpload)),
		TooLarge: func(limit int64) error {
			return app.Errorf(app.TooLarge, "The upload is larger than the %s that are allowed.", size(limit))
		},
		Blame: func(b *web.Body, err error) error { return blame(b, err, app.Textf(brokenUpload)) },
	}
	return u.Take(&c.Call)
}

// accountUploads is how many bodies of one account may be on their way at a
// time: each can hold a connection, and room on the disk.
const accountUploads = 8

// uploads counts them. It is safe for concurrent use.
type uploads struct {
	mu sync.Mutex
	of map[app.AccountID]int
}

// take admits one more, or refuses it with app.Limited. The caller MUST call
// give when it has come.
func (u *uploads) take(id app.AccountID) (give func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[id] >= accountUploads {
		return nil, app.Errorf(app.Limited, "Your account has %d uploads on their way, as many as one account gets. Try again when one has come.", accountUploads)
	}
	u.of[id]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.of[id]--; u.of[id] == 0 {
			delete(u.of, id)
		}
	}, nil
}
