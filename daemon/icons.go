package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"sync"

	"berth/app"
	"berth/db"
	"berth/files/icon"
)

// iconNames are the files of an application that are its icon, in this order.
var iconNames = []string{"icon.png", "icon.webp", "icon.jpg", "icon.jpeg"}

// icons makes and keeps the icons of applications.
type icons struct {
	records  db.Icons
	contents app.Contents
	note     func(id app.ID, text string) // a line in the log of an application
	log      *slog.Logger
	turn     sync.Mutex // one picture is decoded at a time: each may take 60 MB
}

// IconSums implements app.Icons.
func (s *icons) IconSums(ctx context.Context) (map[app.ID]string, error) {
	return s.records.IconSums(ctx)
}

// Icon implements app.Icons.
func (s *icons) Icon(ctx context.Context, id app.ID) (app.Icon, error) {
	return s.records.Icon(ctx, id)
}

// SetIcon implements app.Icons.
func (s *icons) SetIcon(ctx context.Context, id app.ID, picture []byte) error {
	return s.set(ctx, id, picture, false)
}

// RemoveIcon implements app.Icons.
func (s *icons) RemoveIcon(ctx context.Context, id app.ID) error {
	return s.records.DropIcon(ctx, id, false)
}

func (s *icons) set(ctx context.Context, id app.ID, picture []byte, brought bool) error {
	s.turn.Lock()
	png, err := icon.Make(ctx, picture)
	s.turn.Unlock()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(png)
	return s.records.SetIcon(ctx, id, app.Icon{Sum: hex.EncodeToString(sum[:8]), Brought: brought, PNG: png})
}

// bring looks for an icon in the files of an application whose code is new. What is none leaves the application
// without one: the deployment is good all the same.
func (s *icons) bring(ctx context.Context, a app.App) {
	err := s.records.DropIcon(ctx, a.ID, true)
	for _, name := range iconNames {
		var picture []byte
		if err != nil {
			break
		}
		if picture, err = s.read(a, name); err == nil {
			err = s.set(ctx, a.ID, picture, true)
		}
		kind := app.KindOf(err)
		if kind == app.TooLarge || kind == app.Unusable {
			s.note(a.ID, name+" is not used as the icon: "+err.Error())
			return
		}
		if kind != app.NotFound {
			break
		}
		err = nil // perhaps there is one of another name
	}
	if err != nil {
		s.log.Warn("cannot look for the icon of an application", "app", a.ID, "error", err)
	}
}

// read reads a file that may be a picture.
func (s *icons) read(a app.App, name string) (_ []byte, err error) {
	file, size, err := s.contents.OpenFile(a.ID, a.UID, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if size > icon.MaxBytes {
		return nil, icon.TooLong()
	}
	return io.ReadAll(io.LimitReader(file, icon.MaxBytes+1))
}
