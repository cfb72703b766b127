//go:build soak

package repository

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSoakContract is TestContract at each kind of server.
func TestSoakContract(t *testing.T) {
	for name, begin := range servers {
		t.Run(name, func(t *testing.T) {
			s, at := begin(t, t.TempDir())
			testContract(t, at(s.address))
		})
	}
}

// TestSoakKilled kills restic's works at 20 moments each.
func TestSoakKilled(t *testing.T) {
	for work := range works {
		t.Run(work, func(t *testing.T) { killed(t, engines["restic"], work, 20) })
	}
}

// TestSoakFlipped flips 200 bits of packs, indexes and snapshots.
func TestSoakFlipped(t *testing.T) {
	flipped(t, engines["restic"](t), 200, "data", "index", "snapshots")
}

// TestSoakFull fills the disks of servers, which restic tries again for a minute.
func TestSoakFull(t *testing.T) {
	for name, begin := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFull(t, func(t *testing.T, dir string) Options {
				if name == "sftp" {
					dir = filepath.Join(dir, "r")
				}
				s, at := begin(t, dir)
				return at(s.address)
			})
		})
	}
}

// TestSoakServerKilled kills a server while a stream goes there. If it comes back soon the stream goes on; else
// Save fails within minutes.
func TestSoakServerKilled(t *testing.T) {
	for name, begin := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, at := begin(t, t.TempDir())
			r := open(t, at(s.address), true)
			begun := time.Now()
			_, err := r.Save(t.Context(), "apps/shop", nil, endless(t.Context(), 40<<20, s.kill))
			if err == nil || isSaid(err) {
				t.Errorf("%v", err)
			}
			t.Logf("after %v: %v", time.Since(begun).Round(time.Second), err)
			s.start()
			repairs(t, r)
		})
	}
	t.Run("s3, and back", func(t *testing.T) {
		t.Parallel()
		s := newS3(t, t.TempDir())
		r := open(t, s.options(t, s.address), true)
		text := noise(9, 60<<20)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		saved, err := r.Save(ctx, "host", nil, writesAt(text, 20<<20, func() {
			s.kill()
			s.start()
		}))
		must(t, err)
		commit(t, r, oldRun, saved)
		content(t, r, oldRun, map[string][]byte{"host": text})
	})
}

// TestSoakExpired changes the credentials of a server while a stream goes there.
func TestSoakExpired(t *testing.T) {
	s := newS3(t, t.TempDir())
	r := open(t, s.options(t, s.address), true)
	_, err := r.Save(t.Context(), "apps/shop", nil, endless(t.Context(), 40<<20, func() {
		s.kill()
		s.secret = "another-secret"
		s.start()
	}))
	if err == nil || isSaid(err) {
		t.Errorf("%v", err)
	}
	t.Log(err)
	s.kill()
	s.secret = s3Secret
	s.start()
	repairs(t, r)
}

// TestSoakClock sets the clock of a server an hour ahead while a stream goes there, and back.
func TestSoakClock(t *testing.T) {
	program, err := exec.Command("../../test/scripts/s3server", "skewed").Output()
	must(t, err)
	skewed := strings.TrimSpace(string(program))
	s := newS3(t, t.TempDir())
	right := s.program
	r := open(t, s.options(t, s.address), true)
	ahead := func() {
		s.kill()
		s.program = skewed
		s.start()
	}
	_, err = r.Save(t.Context(), "apps/shop", nil, endless(t.Context(), 40<<20, ahead))
	if !errors.Is(err, ErrClock) {
		t.Errorf("in a stream: %v", err)
	}
	if err := r.Open(t.Context(), false); !errors.Is(err, ErrClock) {
		t.Errorf("at the start: %v", err)
	}
	if _, err := r.List(t.Context()); !errors.Is(err, ErrClock) {
		t.Errorf("of a list: %v", err)
	}
	s.kill()
	s.program = right
	s.start()
	repairs(t, r)
}

// TestSoakLater measures what a later backup adds and takes, of 20 streams that changed little.
func TestSoakLater(t *testing.T) {
	for name, place := range engines {
		t.Run(name, func(t *testing.T) { later(t, place(t)) })
	}
}
