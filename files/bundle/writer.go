package bundle

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// compressed are the extensions of files that deflate makes no smaller.
var compressed = map[string]bool{
	".7z": true, ".avif": true, ".br": true, ".bz2": true, ".flac": true, ".gif": true, ".gz": true,
	".jar": true, ".jpeg": true, ".jpg": true, ".m4a": true, ".mkv": true, ".mov": true, ".mp3": true,
	".mp4": true, ".ogg": true, ".opus": true, ".png": true, ".rar": true, ".tgz": true, ".webm": true,
	".webp": true, ".whl": true, ".woff": true, ".woff2": true, ".xz": true, ".zip": true, ".zst": true,
}

// Writer writes a ZIP that Open accepts, as long as it stays below Open's
// limits on entries and bytes. It is not safe for concurrent use.
type Writer struct {
	zw    *zip.Writer
	lim   Limits
	paths paths
}

// NewWriter starts a ZIP on w, which is written as a stream.
func NewWriter(w io.Writer) *Writer {
	return &Writer{zw: zip.NewWriter(w), lim: Limits{}.withDefaults(), paths: paths{}}
}

// AddDir adds a directory, which is only needed for an empty one. A name that
// Open would refuse is app.Unusable and adds nothing.
func (w *Writer) AddDir(name string, mod time.Time) error {
	clean, err := w.admit(name, true)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: clean + "/"}
	h.SetMode(os.ModeDir | 0o755)
	setTime(h, mod)
	if _, err := w.zw.CreateHeader(h); err != nil {
		return fmt.Errorf("cannot write the ZIP: %w", err)
	}
	return nil
}

// AddFile adds a file with what r holds, at most size bytes of it: a log that
// grows while it is read does not make the ZIP grow without end. A shorter r is
// no error. A name that Open would refuse is app.Unusable and adds nothing.
// After another error the entry holds what was read and more may be added.
func (w *Writer) AddFile(name string, exec bool, mod time.Time, size int64, r io.Reader) error {
	mode := os.FileMode(0o644)
	if exec {
		mode = 0o755
	}
	return w.add(name, mode, mod, size, r)
}

func (w *Writer) add(name string, mode os.FileMode, mod time.Time, size int64, r io.Reader) error {
	clean, err := w.admit(name, false)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: clean, Method: zip.Deflate}
	if size == 0 || compressed[strings.ToLower(path.Ext(clean))] {
		h.Method = zip.Store
	}
	h.SetMode(mode)
	setTime(h, mod)
	body, err := w.zw.CreateHeader(h)
	if err != nil {
		return fmt.Errorf("cannot write the ZIP: %w", err)
	}
	if _, err := io.Copy(body, io.LimitReader(r, size)); err != nil {
		return fmt.Errorf("cannot write the ZIP: %w", err)
	}
	return nil
}

// Close writes the directory of the ZIP. It does not close what is below.
func (w *Writer) Close() error {
	if err := w.zw.Close(); err != nil {
		return fmt.Errorf("cannot write the ZIP: %w", err)
	}
	return nil
}

// admit applies the rules of Open to a name that is to be written.
func (w *Writer) admit(name string, dir bool) (string, error) {
	if _, err := decodeName(name, true); err != nil {
		return "", err
	}
	parts, err := splitName(name, w.lim)
	if err != nil {
		return "", err
	}
	clean := strings.Join(parts, "/")
	if clean == "" {
		return "", refuse(name, "has no name")
	}
	return clean, w.paths.add(name, clean, dir)
}

// setTime sets the time when the format can hold it.
func setTime(h *zip.FileHeader, t time.Time) {
	if t.Year() >= 1980 && t.Year() < 2100 {
		h.Modified = t
	}
}
