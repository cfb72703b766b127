package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// lookEvery is how many bytes of an upload come between two looks at the disk.
const lookEvery = 32 << 20

// spoolExt ends the name of an upload in staging.
const spoolExt = ".zip"

// Spool streams r into a fresh file of staging and returns its path. More than
// max bytes is app.TooLarge, a full disk app.NoSpace; an error of r itself is
// wrapped. Nothing is left behind on an error. It blocks as long as r does and
// looks at ctx between reads.
func (s *Store) Spool(ctx context.Context, r io.Reader, max int64) (file string, err error) {
	if err := s.Room("keep the upload"); err != nil {
		return "", err
	}
	name := randName() + spoolExt
	f, err := s.staging.create(name)
	if err != nil {
		return "", cannot("keep the upload", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = cannot("keep the upload", cerr)
		}
		if err != nil {
			_ = unix.Unlinkat(int(s.staging), name, 0)
			file = ""
		}
	}()
	buf := make([]byte, 256<<10)
	var total, looked int64
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if total-looked >= lookEvery { // others write too
			if err := s.Room("keep the upload"); err != nil {
				return "", err
			}
			looked = total
		}
		n, rerr := r.Read(buf)
		if total += int64(n); total > max {
			return "", app.Errorf(app.TooLarge, "the upload is larger than %s", sizeText(max))
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return "", cannot("keep the upload", err)
		}
		if errors.Is(rerr, io.EOF) {
			return filepath.Join(s.root, stagingName, name), nil
		}
		if rerr != nil {
			return "", fmt.Errorf("cannot read the upload: %w", rerr)
		}
	}
}

// DropSpool removes a file Spool made. It is idempotent.
func (s *Store) DropSpool(file string) error {
	name := filepath.Base(file)
	if filepath.Join(s.root, stagingName, name) != filepath.Clean(file) || !isRandName(strings.TrimSuffix(name, spoolExt)) {
		return fmt.Errorf("cannot remove %s: not an upload", file)
	}
	if err := unix.Unlinkat(int(s.staging), name, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove the upload: %w", err)
	}
	return nil
}

// sizeText writes a limit for people.
func sizeText(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
