package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"berth/app"
)

type deploysAnswer struct {
	Status  string   `json:"status"`
	Message string   `json:"message"`
	Deploys []deploy `json:"deploys"`
}

type deploy struct {
	Number   int            `json:"number"`
	Date     string         `json:"date"`
	By       string         `json:"by"` // the number of an account, as modID is
	Kind     app.DeployKind `json:"kind"`
	Size     int64          `json:"size"` // bytes of the ZIP, 0 when there was none
	MainFile string         `json:"mainFile"`
	Lang     string         `json:"lang"`
	Version  string         `json:"version"`
	Note     string         `json:"note"`
	Current  bool           `json:"current"`
	Rollback bool           `json:"rollback"` // whether it can be brought back
}

func (s *server) deploys(c *call) (response, error) {
	all, err := s.Deployments.Deploys(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := make([]deploy, len(all))
	for i, d := range all {
		list[i] = deploy{
			d.Number, timestamp(d.At), strconv.FormatInt(int64(d.By), 10), d.Kind, d.Bytes,
			d.Code.Main, d.Code.Lang, d.Code.Version, d.Note, i == 0, d.Back,
		}
	}
	return ok(deploysAnswer{statusOK, c.say("The deploys of your application have been loaded."), list})
}

func (s *server) rollback(c *call) (response, error) {
	number := int64(0)
	if c.Request.ContentLength != 0 {
		f, err := c.fields()
		if err != nil {
			return response{}, err
		}
		if f.has("deploy") {
			if number, err = f.integer("deploy"); err != nil {
				return response{}, err
			}
			if number < 1 || number > math.MaxInt32 {
				return response{}, app.Errorf(app.Invalid, "The field deploy must be the number of a deploy, 1 or more.")
			}
		}
	}
	// Once begun it is finished, whether the client waits or not.
	ctx := app.WithActor(context.WithoutCancel(c.Request.Context()), c.account.ID)
	d, err := s.Deployments.Rollback(ctx, c.owner(), c.id, int(number))
	if err != nil {
		return response{}, err
	}
	return ok(commitAnswer{statusOK, http.StatusOK, c.tell(outcome(app.Textf("The earlier code of your application is back"), d.Snapshot, s.Now())), d.Logs})
}

func (s *server) restore(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := s.Applications.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	withVariables, err := c.wantsVariables()
	if err != nil {
		return response{}, err
	}
	var file string
	if kind, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type")); err == nil && strings.HasPrefix(kind, "multipart/") {
		file, err = s.spoolWith(c, func(name, text string) (err error) {
			if name == "env" {
				withVariables, err = yes(text)
			}
			return err
		})
		if err != nil {
			return response{}, err
		}
	} else if file, err = s.spoolBackup(c, &withVariables); err != nil {
		return response{}, err
	}
	ctx := app.WithActor(context.WithoutCancel(c.Request.Context()), c.account.ID)
	d, err := s.Deployments.Restore(ctx, c.owner(), c.id, file, withVariables)
	if err != nil {
		return response{}, err
	}
	return ok(commitAnswer{statusOK, http.StatusOK, c.tell(outcome(app.Textf("Your application was restored"), d.Snapshot, s.Now())), d.Logs})
}

// yes reads the word of a form's field.
func yes(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	}
	return false, app.Errorf(app.Invalid, "The field env must be true or false.")
}

// spoolBackup copies the backup that a JSON body names to the deployer.
func (s *server) spoolBackup(c *call, withVariables *bool) (string, error) {
	f, err := c.fields()
	if err != nil {
		return "", err
	}
	if f.has("env") && json.Unmarshal(f["env"], withVariables) != nil {
		return "", app.Errorf(app.Invalid, "The field env must be true or false.")
	}
	named, err := f.text("backup")
	if err != nil {
		return "", err
	}
	if named == nil || *named == "" {
		return "", app.Errorf(app.Invalid, "The field backup is missing. It must be the url of a backup of the application; or send a ZIP as multipart/form-data.")
	}
	link, err := s.Links.Verify(signature(*named))
	if err != nil {
		return "", err
	}
	id, is := s.BackupOf(link.Object)
	if link.Kind != app.LinkBackup || !is {
		return "", app.Errorf(app.NotFound, "This is not the address of a backup.")
	}
	if id != c.id {
		return "", app.Errorf(app.Invalid, "This is a backup of another application, %s. Send the ZIP itself if that is meant.", id)
	}
	backup, _, err := s.Contents.OpenBackup(link.Object)
	if err != nil {
		return "", err
	}
	defer func() { _ = backup.Close() }() // only read, so nothing can be lost
	file, err := s.Deployments.Spool(c.Request.Context(), backup)
	if err != nil {
		return "", fmt.Errorf("cannot read the backup: %w", err)
	}
	return file, nil
}

// signature is the signed part of a link: /d/<signature>/<name>, with or
// without what is around it.
func signature(link string) string {
	if _, after, found := strings.Cut(link, "/d/"); found {
		link = after
	}
	signed, _, _ := strings.Cut(link, "/")
	return signed
}
