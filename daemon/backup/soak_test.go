//go:build soak

package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/app"
	"berth/files/repository"
	"berth/test/hosted"
)

// size is how many bytes are below a directory.
func size(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	hosted.Must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		bytes += info.Size()
		return err
	}))
	return bytes
}

// write makes a file of an application.
func (w *world) write(t *testing.T, a app.App, name string, text []byte) {
	t.Helper()
	path := filepath.Join(w.Store.Dir(a.ID), name)
	hosted.Must(t, errors.Join(os.WriteFile(path, text, 0o600), os.Chown(path, a.UID, a.UID)))
}

// Later backups of 100 applications, of which some changed a little: under a tenth of the
// bytes and half of the time, by restic and in a directory.
func TestSoakLaterBackups(t *testing.T) {
	for _, kind := range []string{"restic", "archives"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			place := filepath.Join(t.TempDir(), "place")
			o := repository.Options{Place: place, Key: "a key that nobody guesses", Host: "one"}
			if kind == "archives" {
				o.Place = "archives:" + place
			}
			repo, err := repository.New(o)
			hosted.Must(t, err)
			w.Repository, w.Policy.Daily = repo, 100
			source := rand.NewChaCha8([32]byte{1})
			var apps []app.App
			for n := range 100 {
				a := w.another(t, app.ID(fmt.Sprintf("bot%02d", n)))
				for file := range 10 {
					text := make([]byte, 400<<10)
					_, _ = source.Read(text) // never fails, by its contract
					w.write(t, a, fmt.Sprintf("file%d", file), text)
				}
				apps = append(apps, a)
			}
			took := func() (time.Duration, int64, app.BackupRun) {
				before, begin := int64(0), time.Now()
				if _, err := os.Stat(place); err == nil {
					before = size(t, place)
				}
				run := w.backup(t)
				return time.Since(begin), size(t, place) - before, run
			}
			first, bytes, run := took()
			t.Logf("first: %s, %d bytes, %+v", first, bytes, run)
			for n := range 10 {
				w.write(t, apps[n*7], "file3", []byte("changed"))
			}
			second, more, run := took()
			t.Logf("10 of 100 changed a little: %s (%.2f), %d bytes (%.3f), %d unchanged", second, second.Seconds()/first.Seconds(), more, float64(more)/float64(bytes), run.Reused)
			if second > first/2 || more > bytes/10 && kind == "restic" || run.Reused != 91 {
				t.Error("that is not half of the time, or a tenth of the bytes")
			}
			for _, a := range apps {
				w.write(t, a, "file4", []byte("changed"))
			}
			third, more, _ := took()
			t.Logf("all changed a little: %s (%.2f), %d bytes (%.3f)", third, third.Seconds()/first.Seconds(), more, float64(more)/float64(bytes))
		})
	}
}
