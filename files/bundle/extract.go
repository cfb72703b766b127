package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// chunk is how much is copied between two looks at the context and the budget.
const chunk = 128 << 10

// Extract unpacks the archive into root, which MUST be empty. Files are 0644,
// or 0755 when the archive has any execute bit; directories 0755; all belong to
// the caller. It counts the bytes that really come out and stops at the limit
// (app.TooLarge); data that does not match its checksum is app.Unusable; errors
// of the file system are plain and wrap their errno. It leaves soon after ctx
// ends. On an error what was written stays: the caller removes the directory.
func (a *Archive) Extract(ctx context.Context, root *os.Root) error {
	if err := a.makeDirs(ctx, root); err != nil {
		return err
	}
	left := a.lim.MaxUnpacked
	buf := make([]byte, chunk)
	for _, e := range a.entries {
		if e.dir {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := a.extractFile(ctx, root, e, left, buf)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// makeDirs makes every directory, named or implied, parents first.
func (a *Archive) makeDirs(ctx context.Context, root *os.Root) error {
	seen := make(map[string]bool)
	var dirs []string
	for _, e := range a.entries {
		p := e.name
		if !e.dir {
			p = path.Dir(p)
		}
		for ; p != "." && !seen[p]; p = path.Dir(p) {
			seen[p] = true
			dirs = append(dirs, p)
		}
	}
	slices.SortFunc(dirs, strings.Compare)
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := root.Mkdir(d, 0o755)
		if err == nil {
			err = root.Chmod(d, 0o755) // the daemon's umask is not the archive's business
		}
		if err != nil {
			return fmt.Errorf("cannot make a directory of the ZIP: %w", err)
		}
	}
	return nil
}

// extractFile writes one file and returns its size.
func (a *Archive) extractFile(ctx context.Context, root *os.Root, e entry, left int64, buf []byte) (n int64, err error) {
	r, err := a.open(e)
	if err != nil {
		return 0, damaged(e.name, err)
	}
	defer r.Close()
	// O_EXCL: the directory was empty, so whatever is there was planted.
	f, err := root.OpenFile(e.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, fmt.Errorf("cannot write a file of the ZIP: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if n, err = a.copyEntry(ctx, f, r, e, left, buf); err != nil {
		return n, err
	}
	mode := os.FileMode(0o644)
	if e.exec || isProgram(f) {
		mode = 0o755
	}
	err = f.Chmod(mode)
	if err == nil && saneTime(e.mod) {
		err = root.Chtimes(e.name, e.mod, e.mod)
	}
	if err != nil {
		return n, fmt.Errorf("cannot write a file of the ZIP: %w", err)
	}
	return n, nil
}

// isProgram reports whether a file is one that is executed by itself: a ZIP
// made on Windows has no permissions to say so.
func isProgram(f io.ReaderAt) bool {
	var magic [4]byte
	n, _ := f.ReadAt(magic[:], 0)
	return string(magic[:n]) == "\x7fELF" || string(magic[:min(n, 2)]) == "#!"
}

// copyEntry copies the data of e, at most left bytes.
func (a *Archive) copyEntry(ctx context.Context, w io.Writer, r io.Reader, e entry, left int64, buf []byte) (int64, error) {
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, rerr := r.Read(buf)
		if total += int64(n); total > left {
			return total, tooBig(a.lim)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return total, fmt.Errorf("cannot write a file of the ZIP: %w", err)
		}
		if errors.Is(rerr, io.EOF) {
			return total, nil
		}
		if rerr != nil {
			return total, damaged(e.name, rerr)
		}
	}
}

// saneTime reports whether an archive's time is worth keeping. 1980 is what
// the format says when it does not know.
func saneTime(t time.Time) bool {
	return t.Year() > 1980 && t.Before(time.Now().Add(24*time.Hour))
}

// SizeText writes a limit for people.
func SizeText(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
