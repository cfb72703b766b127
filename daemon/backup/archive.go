package backup

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"berth/app"
	"berth/app/build"
	"berth/db"
	"berth/files"
	"berth/files/archive"
)

// The parts of an archive that are not of one application.
const (
	DatabasePart = "berth.db"
	SettingsPart = "berth.toml"
	ManagedPart  = "berth.d/managed.toml" // what berth sets itself
	// KeysPart has the keys of the secrets: a file of age (age-encryption.org/v1) for a
	// passphrase, with one key a line.
	KeysPart = "berth.key.age"
)

// Source is a host that is backed up.
type Source struct {
	DB      *db.DB
	DataDir string
	Trees   *files.Store
	Config  string // the settings file, which need not be there
	Managed string // the one beside it that berth writes
	Keys    []byte // the content of KeysPart; nil leaves it out
}

// WriteArchive writes a compressed archive of the whole host to f while everything runs, and
// returns what is in it, and which applications are not.
func (s Source) WriteArchive(ctx context.Context, f io.Writer) (m archive.Manifest, missing []Failure, err error) {
	out := bufio.NewWriterSize(f, 1<<20)
	sealed := archive.NewSealer(out)
	zip, err := gzip.NewWriterLevel(sealed, gzip.BestSpeed)
	if err != nil {
		return m, nil, err
	}
	w, err := s.begin(zip)
	if err != nil {
		return m, nil, err
	}
	if err := s.addHost(w); err != nil {
		return m, nil, err
	}
	temp, err := stagingDir(s.DataDir)
	if err != nil {
		return m, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	copied := filepath.Join(temp, DatabasePart)
	c := collector{db: s.DB, add: func(ctx context.Context, a app.App) error {
		return exported(w, s.Trees.Export(ctx, w, a.ID, a.UID))
	}, drop: func(id app.ID) {
		w.Void("apps/" + string(id))
		w.Void("rollback/" + string(id))
	}}
	if err := c.collect(ctx, copied); err != nil {
		return m, nil, err
	}
	schema, err := addDatabase(ctx, w, copied)
	if err != nil {
		return m, nil, err
	}
	m, err = w.Close(schema)
	return m, c.failures(), errors.Join(err, zip.Close(), sealed.Close(), out.Flush())
}

// exported tells an error of the application that was exported from one of the archive.
func exported(w *archive.Writer, err error) error {
	if err == nil || w.Err() != nil || errors.Is(err, files.ErrBusy) {
		return errors.Join(err, w.Err())
	}
	return appError{err}
}

// begin begins an archive of this host.
func (s Source) begin(to io.Writer) (*archive.Writer, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	m := archive.Manifest{Berth: build.Version(), Made: time.Now().UTC(), Host: host}
	if _, err := os.Lstat(s.Managed); err == nil {
		m.Format = archive.Format // an older berth would not know the part
	}
	return archive.NewWriter(to, m)
}

// addHost adds the settings, and the keys of the secrets.
func (s Source) addHost(w *archive.Writer) error {
	if err := addFile(w, SettingsPart, s.Config); err != nil {
		return err
	}
	if err := addFile(w, ManagedPart, s.Managed); err != nil {
		return err
	}
	return addBytes(w, KeysPart, s.Keys)
}
