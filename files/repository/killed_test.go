package repository

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The runs of these tests: old is there before, next is made or the reason that old goes.
const (
	oldRun  = "20260201T000000Z"
	nextRun = "20260202T000000Z"
)

// streams are what is in the runs. shop changes, bot does not.
func streams(run string) map[string][]byte {
	if run == oldRun {
		return map[string][]byte{"apps/shop": noise(11, 1<<20), "apps/bot": noise(12, 1<<18), "host": noise(13, 50_000)}
	}
	return map[string][]byte{"apps/shop": noise(14, 3<<19), "apps/bot": noise(12, 1<<18), "host": noise(15, 50_000)}
}

// works are what a process is killed at. Each can be done again.
var works = map[string]func(ctx context.Context, r Repository) error{
	"backup": func(ctx context.Context, r Repository) error {
		all, err := r.List(ctx)
		if err != nil {
			return err
		}
		return makeRun(ctx, r, nextRun, all)
	},
	"drop":  func(ctx context.Context, r Repository) error { return r.Drop(ctx, []string{oldRun}) },
	"prune": func(ctx context.Context, r Repository) error { return r.Prune(ctx) },
}

// makeRun saves what changed and makes it a run, with bot of an earlier one.
func makeRun(ctx context.Context, r Repository, run string, all []Snapshot) error {
	if slices.Contains(Runs(all, "host"), run) {
		return nil
	}
	var others []Snapshot
	for _, name := range []string{"apps/bot", "apps/shop"} {
		s, there := Find(all, oldRun, name)
		if name != "apps/bot" || !there {
			var err error
			if s, err = r.Save(ctx, name, nil, writes(streams(run)[name])); err != nil {
				return err
			}
		}
		others = append(others, s)
	}
	head, err := r.Save(ctx, "host", nil, writes(streams(run)["host"]))
	if err == nil {
		_, err = r.Commit(ctx, run, head, others)
	}
	return err
}

// A process of this test is the one that is killed.
func TestMain(m *testing.M) {
	place, work := os.Getenv("REPOSITORY_TEST_PLACE"), os.Getenv("REPOSITORY_TEST_WORK")
	if place == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", "6"); err != nil { // most of the time they wait for restic, and it for them
			panic(err)
		}
		os.Exit(m.Run())
	}
	r, err := New(Options{Place: place, Key: key, Cache: os.Getenv("REPOSITORY_TEST_CACHE")})
	ctx := context.Background()
	if err == nil {
		err = r.Open(ctx, false)
	}
	if err == nil {
		fmt.Println("begun")
		err = works[work](ctx, r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// killAt starts the work in a process and kills that after a time, 0 for never. It returns how long
// the process worked.
func killAt(t *testing.T, o Options, work string, after time.Duration) time.Duration {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "REPOSITORY_TEST_PLACE="+o.Place, "REPOSITORY_TEST_WORK="+work, "REPOSITORY_TEST_CACHE="+o.Cache,
		"GORACE=atexit_sleep_ms=0") // the race detector waits at the end for a second
	said := &tail{}
	c.Stderr = said
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the process did not begin: %s", said)
	}
	begun := time.Now()
	if after > 0 {
		defer time.AfterFunc(after, func() { _ = c.Process.Kill() }).Stop()
	}
	if err := c.Wait(); err != nil && (after == 0 || said.String() != "") {
		t.Fatalf("%s: %v: %s", work, err, said)
	}
	return time.Since(begun)
}

// prepared makes the place as it is before the work, and returns the runs of which one is there at any
// moment, and those that are there afterwards.
func prepared(t *testing.T, o Options, work string) (before, after []string) {
	t.Helper()
	r := open(t, o, true)
	must(t, makeRun(t.Context(), r, oldRun, nil))
	switch work {
	case "drop":
		must(t, makeRun(t.Context(), r, nextRun, list(t, r)))
		return []string{nextRun, oldRun}, []string{nextRun}
	case "prune":
		save(t, r, "apps/lost", noise(16, 9<<20))
		must(t, makeRun(t.Context(), r, nextRun, list(t, r)))
		must(t, r.Drop(t.Context(), []string{oldRun}))
		save(t, r, "apps/lost", noise(17, 1<<20))
		return []string{nextRun}, []string{nextRun}
	}
	return []string{oldRun}, []string{nextRun, oldRun}
}

// killed kills the work at so many moments, spread over the time that it takes.
func killed(t *testing.T, place func(t *testing.T) Options, work string, moments int) {
	template := place(t)
	before, after := prepared(t, template, work)
	again := func() Options {
		o := template
		dir := t.TempDir()
		if out, err := exec.Command("cp", "-a", filepath.Dir(place1(template)), dir).CombinedOutput(); err != nil {
			t.Fatalf("cp: %s", out)
		}
		copied := filepath.Join(dir, filepath.Base(filepath.Dir(place1(template))), filepath.Base(place1(template)))
		o.Place = template.Place[:len(template.Place)-len(place1(template))] + copied
		if o.Cache != "" {
			o.Cache = t.TempDir()
		}
		return o
	}
	whole := killAt(t, again(), work, 0)
	seen := map[string]int{}
	for n := range moments {
		o := again()
		killAt(t, o, work, whole*time.Duration(2*n+1)/time.Duration(2*moments))
		r := open(t, o, false)
		runs := Runs(list(t, r), "host")
		if !slices.Equal(runs, before) && !slices.Equal(runs, after) {
			t.Errorf("moment %d: %q, and neither %q nor %q", n, runs, before, after)
		}
		seen[fmt.Sprint(len(runs))]++
		for _, run := range runs {
			content(t, r, run, streams(run))
		}
		must(t, works[work](t.Context(), r))
		must(t, r.Prune(t.Context()))
		if runs := Runs(list(t, r), "host"); !slices.Equal(runs, after) {
			t.Errorf("moment %d, done again: %q, and not %q", n, runs, after)
		}
		for _, run := range after {
			content(t, r, run, streams(run))
		}
		for _, s := range list(t, r) {
			if len(s.Runs) == 0 {
				t.Errorf("moment %d: after Prune there is %+v", n, s)
			}
		}
		if err := r.Check(t.Context(), 0, 1); err != nil {
			t.Errorf("moment %d: %v", n, err)
		}
	}
	t.Logf("%s takes %v; killed at %d moments; runs that were there: %v", work, whole.Round(time.Millisecond), moments, seen)
}

// place1 is the path of a place.
func place1(o Options) string {
	path := o.Place
	if len(path) > len(archives) && path[:len(archives)] == archives {
		path = path[len(archives):]
	}
	return path
}

// A process that is killed leaves the old or the new, and what it did can be done again. TestSoakKilled does the
// same to restic.
func TestKilled(t *testing.T) {
	t.Parallel()
	for work := range works {
		t.Run("archives/"+work, func(t *testing.T) {
			t.Parallel()
			killed(t, engines["archives"], work, 20)
		})
	}
}

// A writer that dies with its pipe looks like the end of the stream. It is killed before
// restic sees that, and what restic keeps all the same is of no run.
func TestKilledWithTheHeadLast(t *testing.T) {
	t.Parallel()
	o := engines["restic"](t)
	r := open(t, o, true)
	inner, _ := r.(*restic)
	shop, bot := save(t, r, "apps/shop", noise(1, 1000)), save(t, r, "apps/bot", noise(2, 1000))
	head := save(t, r, "host", []byte("one"))
	// As a Commit that ended before the head.
	all, err := inner.list(t.Context())
	must(t, err)
	others, err := all.find(shop, bot)
	must(t, err)
	must(t, inner.tag(t.Context(), others, "--add", runTag+oldRun))
	for _, s := range list(t, r) {
		if len(s.Runs) > 0 {
			t.Errorf("a run without a head: %+v", s)
		}
	}
	// The same name again, without bot: bot must not be part of it.
	r = open(t, o, false)
	if _, err := r.Commit(t.Context(), oldRun, head, []Snapshot{shop}); err != nil {
		t.Fatal(err)
	}
	content(t, r, oldRun, map[string][]byte{"apps/shop": noise(1, 1000), "host": []byte("one")})
	if _, err := r.Commit(t.Context(), oldRun, bot, []Snapshot{shop}); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("two backups of one name: %v", err)
	}
	must(t, r.Prune(t.Context()))
	if all := list(t, r); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}
