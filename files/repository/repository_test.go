package repository

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/test/harness"
)

const key = harness.ResticKey

// engines are the kinds of places; each makes one that is empty.
var engines = map[string]func(t *testing.T) Options{
	"archives": func(t *testing.T) Options { return Options{Place: archives + filepath.Join(t.TempDir(), "backups")} },
	"restic": func(t *testing.T) Options {
		return Options{Place: filepath.Join(t.TempDir(), "backups"), Key: key, Cache: t.TempDir(), Host: "host.test", Restic: needRestic(t)}
	},
}

func needRestic(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("restic")
	if err != nil {
		t.Skip("restic is not installed")
	}
	return program
}

func open(t *testing.T, o Options, create bool) Repository {
	t.Helper()
	if create && filepath.IsAbs(o.Place) { // TestContract and TestServers let restic make theirs
		harness.MakeRestic(t, o.Place)
	}
	r, err := New(o)
	must(t, err)
	must(t, r.Open(t.Context(), create))
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noise is a stream that nothing compresses, the same one for the same seed.
func noise(seed uint64, size int) []byte {
	text := make([]byte, size)
	var from [32]byte
	from[0], from[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(from).Read(text)
	return text
}

func writes(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	}
}

func save(t *testing.T, r Repository, name string, text []byte) Snapshot {
	t.Helper()
	s, err := r.Save(t.Context(), name, map[string]string{"print": "a-b.c:/d", "uid": "7"}, writes(text))
	must(t, err)
	return s
}

func load(t *testing.T, r Repository, s Snapshot) []byte {
	t.Helper()
	text, err := loadErr(t.Context(), r, s)
	must(t, err)
	return text
}

func loadErr(ctx context.Context, r Repository, s Snapshot) (text []byte, err error) {
	err = r.Load(ctx, s, func(from io.Reader) (err error) {
		text, err = io.ReadAll(from)
		return err
	})
	return text, err
}

func list(t *testing.T, r Repository) []Snapshot {
	t.Helper()
	all, err := r.List(t.Context())
	must(t, err)
	return all
}

func commit(t *testing.T, r Repository, run string, head Snapshot, others ...Snapshot) int64 {
	t.Helper()
	n, err := r.Commit(t.Context(), run, head, others)
	must(t, err)
	return n
}

// content fails unless a run has exactly these streams.
func content(t *testing.T, r Repository, run string, want map[string][]byte) {
	t.Helper()
	all := list(t, r)
	var names []string
	for _, s := range all {
		if s.Of(run) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	if expected := slices.Sorted(maps.Keys(want)); !slices.Equal(names, expected) {
		t.Fatalf("%s has %q, and not %q", run, names, expected)
	}
	for name, text := range want {
		s, _ := Find(all, run, name)
		if got := load(t, r, s); !bytes.Equal(got, text) {
			t.Errorf("%s of %s: %d other bytes, of %d", name, run, len(got), len(text))
		}
	}
}

// What every repository promises, with both kinds.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, place := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testContract(t, place(t))
		})
	}
}

func testContract(t *testing.T, o Options) {
	r, err := New(o)
	must(t, err)
	if err := r.Open(t.Context(), false); !errors.Is(err, ErrNone) {
		t.Fatalf("a place without a repository: %v", err)
	}
	must(t, r.Open(t.Context(), true))
	must(t, r.Open(t.Context(), true))
	shop, bot, host1 := noise(1, 3<<20), noise(2, 70_000), []byte("one")
	s1, b1 := save(t, r, "apps/shop", shop), save(t, r, "apps/bot", bot)
	h1 := save(t, r, "host", host1)
	if all := list(t, r); len(all) != 3 || Runs(all, "host") != nil || all[0].Name != "host" || all[0].ID != h1.ID {
		t.Fatalf("saved for no run: %+v", all)
	}
	if got := load(t, r, s1); !bytes.Equal(got, shop) {
		t.Error("what was saved for no run is not what was saved")
	}
	if added := commit(t, r, "20260101T000000Z", h1, s1, b1); added < 3<<20 {
		t.Errorf("it added %d bytes", added)
	}
	old, _ := Find(list(t, r), "20260101T000000Z", "apps/shop")
	if old.Labels["print"] != "a-b.c:/d" || old.Labels["uid"] != "7" || time.Since(old.At) > time.Hour {
		t.Errorf("%+v", old)
	}

	// A second backup, by another process: shop is as it was, bot has changed, and one is there that does not count.
	r = open(t, o, false)
	old, _ = Find(list(t, r), "20260101T000000Z", "apps/shop")
	bot2, host2 := noise(3, 60_000), []byte("two")
	save(t, r, "apps/lost", noise(4, 1000))
	b2 := save(t, r, "apps/bot", bot2)
	h2 := save(t, r, "host", host2)
	if added := commit(t, r, "20260102T000000Z", h2, b2, old); added > 200_000 {
		t.Errorf("the second backup added %d bytes", added)
	}
	content(t, r, "20260102T000000Z", map[string][]byte{"apps/shop": shop, "apps/bot": bot2, "host": host2})
	content(t, r, "20260101T000000Z", map[string][]byte{"apps/shop": shop, "apps/bot": bot, "host": host1})
	if got := Runs(list(t, r), "host"); !slices.Equal(got, []string{"20260102T000000Z", "20260101T000000Z"}) {
		t.Errorf("%q", got)
	}
	must(t, r.Check(t.Context(), 0, 1))

	must(t, r.Drop(t.Context(), []string{"20260101T000000Z", "20250101T000000Z"}))
	must(t, r.Prune(t.Context()))
	content(t, r, "20260102T000000Z", map[string][]byte{"apps/shop": shop, "apps/bot": bot2, "host": host2})
	if all := list(t, r); len(all) != 3 {
		t.Errorf("after Drop and Prune %+v", all)
	}
	if _, err := loadErr(t.Context(), r, b1); err == nil {
		t.Error("what was dropped is still there")
	}
	must(t, r.Check(t.Context(), 0, 1))
	must(t, open(t, o, false).Check(t.Context(), 0, 1))
}

// A writer that fails leaves nothing that counts, wherever it fails, and its error is returned.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	failed := errors.New("the application is gone")
	for name, place := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, place(t), true)
			for _, after := range []int{0, 1000, 128 << 10, 3 << 20} {
				_, err := r.Save(t.Context(), "apps/shop", nil, func(w io.Writer) error {
					if err := writes(noise(1, after))(w); err != nil {
						return err
					}
					return failed
				})
				if !errors.Is(err, failed) {
					t.Errorf("after %d bytes: %v", after, err)
				}
			}
			if all := list(t, r); len(all) > 0 {
				t.Errorf("%+v", all)
			}
			head := save(t, r, "host", []byte("it works"))
			commit(t, r, "20260101T000000Z", head)
			must(t, r.Prune(t.Context()))
			content(t, r, "20260101T000000Z", map[string][]byte{"host": []byte("it works")})
		})
	}
}

// Whoever reads may stop early, and an error of theirs is theirs.
func TestLoadStopsEarly(t *testing.T) {
	t.Parallel()
	mine := errors.New("enough")
	for name, place := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, place(t), true)
			s := save(t, r, "host", noise(1, 5<<20))
			for _, want := range []error{nil, mine} {
				err := r.Load(t.Context(), s, func(from io.Reader) error {
					_, err := io.ReadFull(from, make([]byte, 100))
					return errors.Join(err, want)
				})
				if !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Errorf("%v, and not %v", err, want)
				}
			}
			if _, err := loadErr(t.Context(), r, Snapshot{ID: "none", Name: "host"}); err == nil {
				t.Error("a snapshot that there is not can be loaded")
			}
		})
	}
}

// When the context ends, so does what goes on, and nothing of it counts.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	for name, place := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, place(t), true)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := r.Save(ctx, "apps/shop", nil, func(w io.Writer) error {
				for n := 0; ; n++ {
					if n == 50 {
						cancel()
					}
					if _, err := w.Write(noise(uint64(n), 64<<10)); err != nil {
						return err
					}
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if err := r.Check(ctx, 0, 1); name == "restic" && !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if all := list(t, r); len(all) > 0 {
				t.Errorf("%+v", all)
			}
			must(t, r.Prune(t.Context()))
		})
	}
}

// A run of which the head was never tagged is no run, and its snapshots are of none.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, place := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, place(t), true)
			for _, bad := range []string{"", "../x", "a,b", "/a", "a//b", ".new-x", "a/.hidden", "a b", "-a"} {
				if _, err := r.Save(t.Context(), bad, nil, writes(nil)); err == nil {
					t.Errorf("the name %q is saved", bad)
				}
				if _, err := r.Commit(t.Context(), bad, Snapshot{}, nil); err == nil {
					t.Errorf("the run %q is made", bad)
				}
				if err := r.Drop(t.Context(), []string{bad}); err == nil {
					t.Errorf("the run %q is dropped", bad)
				}
			}
			for _, bad := range []string{"a,b", "a=b", "a b"} {
				if _, err := r.Save(t.Context(), "host", map[string]string{"k": bad}, writes(nil)); err == nil {
					t.Errorf("the label %q is saved", bad)
				}
			}
			if _, err := r.Commit(t.Context(), "run", Snapshot{ID: "none", Name: "host"}, nil); err == nil {
				t.Error("a run of nothing is made")
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for place, where := range map[string]string{
		"archives:/mnt/backups":             "archives:/mnt/backups",
		"/mnt/backups":                      "/mnt/backups",
		"local:/mnt/backups":                "local:/mnt/backups",
		"sftp:me@host:backups":              "sftp:me@host:backups",
		"sftp://me@host:22//mnt/x":          "sftp://me@host:22//mnt/x",
		"s3:https://host:900/bucket/x@y":    "s3:https://host:900/bucket/x@y",
		"rest:https://me:pass@host:8000/":   "rest:https://me@host:8000/",
		"rest:https://me:a/b@c@host:8000/x": "rest:https://me@host:8000/x",
		"rest:https://:pass@host/":          "rest:https://@host/",
		"rclone:remote:path":                "rclone:remote:path",
		"":                                  "",
		"archives:":                         "",
		"s3:":                               "",
		"-r":                                "",
		"archives:-x":                       "",
		"sftp:-oProxyCommand=reboot:/x":     "",
		"sftp://-oProxyCommand=reboot/x":    "",
		"sftp:me@-oProxyCommand=reboot:/x":  "",
		"archives:backups":                  "",
		"local:backups":                     "",
		"backups":                           "",
		"./backups":                         "",
		"s3:https://host/bucket\nX=1":       "",
	} {
		r, err := New(Options{Place: place, Key: key})
		switch {
		case (err != nil) != (where == ""):
			t.Errorf("%q: %v", place, err)
		case err == nil && r.Where() != where:
			t.Errorf("%q is shown as %q", place, r.Where())
		}
	}
	if _, err := New(Options{Place: "/mnt/backups"}); err == nil {
		t.Error("a repository of restic needs no key")
	}
}
