//go:build soak

package e2e

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// TestSoak100MB: the largest upload of most clients.
func TestSoak100MB(t *testing.T) { largeUploads(t, 99<<20) }

// TestSoak512MB: the largest upload over WebSocket that clients send, twice at
// once, and the daemon's memory stays what it is.
func TestSoak512MB(t *testing.T) {
	harness.Patience *= 10
	d := launch(t)
	c := d.account("ana", 400)
	path := filepath.Join(d.Root, "large.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := zip.NewWriter(f)
	for name, content := range harness.NodeBot(harness.IdleNode) {
		entry, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(entry, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	entry, err := w.CreateHeader(&zip.FileHeader{Name: "data.bin", Method: zip.Store})
	if err == nil {
		_, err = io.CopyN(entry, rand.NewChaCha8([32]byte{}), 511<<20)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			s := c.in(t).socket("/upload")
			done := make(chan struct{})
			go func() { defer close(done); s.stream(from, int(info.Size()), 256<<10) }()
			s.end(200, websocket.StatusNormalClosure)
			<-done
		})
	}
	t.Cleanup(func() { // before the daemon's end, after the uploads
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
		m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
		if err != nil || m == nil {
			t.Fatal(err, string(status))
		}
		kb, err := strconv.Atoi(string(m[1]))
		if t.Logf("the daemon's peak is %d MB", kb>>10); err != nil || kb > 128<<10 {
			t.Errorf("the daemon's peak is %d KB, %v", kb, err)
		}
	})
}

// The power goes at 20 moments of each.
func TestSoakPowerCutInABackup(t *testing.T)  { powerCutInABackup(t, 20) }
func TestSoakPowerCutInARestore(t *testing.T) { powerCutInARestore(t, 20) }
func TestSoakPowerCutInAMove(t *testing.T)    { powerCutInAMove(t, 20) }
