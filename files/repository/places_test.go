package repository

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// servers are the places behind a server.
var servers = map[string]func(t *testing.T, dir string) (*server, func(address string) Options){
	"s3": func(t *testing.T, dir string) (*server, func(string) Options) {
		s := newS3(t, dir)
		return &s.server, func(address string) Options { return s.options(t, address) }
	},
	"sftp": newSSH,
}

// A backup goes to each kind of server and comes back.
func TestServers(t *testing.T) {
	t.Parallel()
	for name, begin := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, at := begin(t, t.TempDir())
			o := at(s.address)
			r, err := New(o)
			must(t, err)
			if err := r.Open(t.Context(), false); !errors.Is(err, ErrNone) {
				t.Errorf("nothing there: %v", err)
			}
			must(t, r.Open(t.Context(), true))
			repairs(t, r)
			o.Key = "another key"
			other, err := New(o)
			must(t, err)
			if err := other.Open(t.Context(), false); !errors.Is(err, ErrPassword) {
				t.Errorf("another key: %v", err)
			}
			s.kill()
			if err := r.Open(t.Context(), true); err == nil || isSaid(err) {
				t.Errorf("nobody answers: %v", err)
			}
		})
	}
}

// isSaid reports whether an error is one that the owner can mend in the repository.
func isSaid(err error) bool {
	for _, sentinel := range []error{ErrNone, ErrPassword, ErrLocked, ErrClock, ErrFull, ErrDamaged} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// Credentials that a server refuses are no repository that is missing, and in no error.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	s := newS3(t, t.TempDir())
	o := s.options(t, s.address)
	for what, env := range map[string][]string{
		"a wrong secret":    {"AWS_ACCESS_KEY_ID=" + s3User, "AWS_SECRET_ACCESS_KEY=a-secret-of-before"},
		"an unknown user":   {"AWS_ACCESS_KEY_ID=somebody", "AWS_SECRET_ACCESS_KEY=" + s3Secret},
		"an expired token":  {"AWS_ACCESS_KEY_ID=" + s3User, "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_SESSION_TOKEN=a-token-of-before"},
		"nothing to say so": nil,
	} {
		o.Env = env
		r, err := New(o)
		must(t, err)
		if err = r.Open(t.Context(), true); err == nil || isSaid(err) || strings.Contains(err.Error(), "was ended") {
			t.Errorf("%s: %v", what, err) // one that was ended took 30 seconds
			continue
		}
		for _, e := range env {
			if _, value, _ := strings.Cut(e, "="); strings.Contains(err.Error(), value) {
				t.Errorf("%s: the error has %q: %v", what, value, err)
			}
		}
	}
	open(t, s.options(t, s.address), true)
}

// What takes too long ends with its context, says where it was, and counts for nothing.
func TestSlow(t *testing.T) {
	t.Parallel()
	s := newS3(t, t.TempDir())
	n := newLine(t, s.address, 0)
	r := open(t, s.options(t, n.address), true)
	n.set(200_000, false)
	ctx, cancel := context.WithCancel(t.Context())
	begun := time.Now()
	_, err := r.Save(ctx, "apps/shop", nil, endless(ctx, 1<<20, func() {
		begun = time.Now()
		cancel()
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it went on for %v", took)
	}
	n.set(2_000_000, false)
	repairs(t, r)
}

// A place that is full says so, and works again when there is room.
func TestFull(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(t *testing.T, dir string) Options{
		"archives": func(_ *testing.T, dir string) Options { return Options{Place: archives + dir} },
		"restic": func(t *testing.T, dir string) Options {
			return Options{Place: filepath.Join(dir, "r"), Key: key, Restic: needRestic(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFull(t, place)
		})
	}
}

func testFull(t *testing.T, place func(t *testing.T, dir string) Options) {
	dir := small(t, 24)
	r := open(t, place(t, dir), true)
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, noise(5, 12<<20), 0o600))
	_, err := r.Save(t.Context(), "apps/shop", nil, writes(noise(6, 40<<20)))
	if !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(ballast))
	must(t, r.Open(t.Context(), false))
	must(t, r.Prune(t.Context()))
	repairs(t, r)
}
