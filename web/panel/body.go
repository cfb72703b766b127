package panel

import (
	"context"
	"io"

	"berth/app"
	"berth/web"
)

// blame says what was wrong with a body that could not be read.
func blame(b *web.Body, err error) error {
	switch fault, err := b.Fault(err); fault {
	case web.Cut:
		return err
	case web.TooLarge:
		return errTooLarge(b.Limit())
	case web.Slow, web.Silent:
		return app.Errorf(app.Invalid, "the upload came too slowly, so it was given up")
	case web.Malformed:
	}
	return app.Errorf(app.Invalid, "the upload ended early, or is none")
}

func errTooLarge(limit int64) error {
	return app.Errorf(app.TooLarge, "the upload is larger than the %d MB that are allowed", max(1, limit>>20))
}

// spool streams the file of a form to the deployer, and counts it in j. The fields
// before it are told to field; ready judges them before a byte of the file is kept.
func (s *server) spool(c *call, j *job, field func(name, text string), ready func() error) (string, error) {
	if c.Request.ContentLength > s.MaxUpload {
		return "", errTooLarge(s.MaxFile)
	}
	u := s.uploads(app.Errorf(app.Invalid, "choose a ZIP file to upload"))
	u.Field = func(name, text string) error { field(name, text); return nil }
	u.Came = j.came
	u.Spool = func(ctx context.Context, r io.Reader) (string, error) {
		if err := ready(); err != nil {
			return "", err
		}
		return s.Deployments.Spool(ctx, r)
	}
	return u.Take(&c.Call)
}

// uploads takes files of forms; none says that there is none.
func (s *server) uploads(none error) web.Upload {
	return web.Upload{
		MaxBody: s.MaxUpload, MaxFile: s.MaxFile, DropSpool: s.Deployments.DropSpool,
		NoForm: none, NoFile: none, Crowded: app.Errorf(app.Invalid, "there is too much before the file"),
		TooLarge: errTooLarge, Blame: blame,
	}
}
