package repository

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// restic is a repository of restic, 0.14 or newer. Each call runs the program once or a few times;
// each run costs half a second of a processor for the key alone (scrypt), so they are few.
//
// What a snapshot is of, and which runs it is part of, are its tags. A tag cannot be changed: restic writes
// the snapshot anew and removes the old one. So each has a tag id that stays.
type restic struct {
	Options
	secrets []string
	grace   time.Duration   // until restic is killed after it was asked to end
	pauses  []time.Duration // between two tries while somebody else works in the repository
	answer  time.Duration   // the longest that Open waits for the place

	known *listing         // what is there; nil when that is not known. Nobody else changes it meanwhile.
	added map[string]int64 // what those that were saved added
}

func newRestic(o Options) *restic {
	return &restic{
		Options: o, secrets: secretsOf(o), grace: 5 * time.Second, answer: 30 * time.Second,
		pauses: []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute},
		added:  map[string]int64{},
	}
}

// Where implements Repository.
func (r *restic) Where() string {
	return Public(r.Place)
}

// Open implements Repository.
func (r *restic) Open(ctx context.Context, create bool) error {
	// One run tells whether there is a repository, whether the key opens it, and who is in it.
	asked, cancel := context.WithTimeout(ctx, r.answer)
	defer cancel()
	var locks []string
	err := r.patiently(asked, call{args: []string{"list", "locks", "--no-lock"}, take: linesTo(&locks), opens: true})
	switch {
	case errors.Is(err, ErrNone) && create:
		_, err = r.lines(ctx, "init")
	case err == nil && len(locks) > 0:
		_, err = r.unlock(ctx, locks)
	}
	return cannot("open the repository", err)
}

// Save implements Repository.
func (r *restic) Save(ctx context.Context, name string, labels map[string]string, write func(io.Writer) error) (Snapshot, error) {
	if err := checkName(name, labels); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{ID: newID(), Name: name, Labels: maps.Clone(labels), At: time.Now()}
	from := newSource(write)
	defer from.stop()
	if err := from.begin(); err != nil {
		return Snapshot{}, cannot("save "+name, err)
	}
	args := []string{"backup", "--stdin", "--stdin-filename", fileOf(name), "--json", "--tag", strings.Join(tagsOf(s), ",")}
	if r.Host != "" {
		args = append(args, "--host", r.Host)
	}
	var is summary
	err := r.patiently(ctx, call{args: args, feed: from.copyTo, take: func(out io.Reader) error {
		is = readSummary(out)
		return nil
	}})
	if err == nil && is.ID == "" {
		err = errors.New("restic does not say which snapshot it made")
	}
	if err != nil {
		return Snapshot{}, cannot("save "+name, err)
	}
	if r.known != nil {
		r.known.kept = slices.Insert(r.known.kept, 0, kept{Snapshot: s, copies: []string{is.ID}, file: fileOf(name)})
	}
	r.added[s.ID] = cmp.Or(is.Packed, is.Added)
	return s, nil
}

// fileOf returns the path of the one file in a snapshot. It is in no directory: restic 0.18.0 refuses a
// stream whose name has one (https://github.com/restic/restic/issues/5324).
func fileOf(name string) string { return "/" + strings.ReplaceAll(name, "/", "-") }

// summary is the last line of restic backup --json.
type summary struct {
	Type   string `json:"message_type"`
	ID     string `json:"snapshot_id"`       // its first digits in 0.14
	Added  int64  `json:"data_added"`        // before it is compressed
	Packed int64  `json:"data_added_packed"` // not in 0.14
}

func readSummary(out io.Reader) (found summary) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var s summary
		if json.Unmarshal(lines.Bytes(), &s) == nil && s.Type == "summary" {
			found = s
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
	return found
}

// List implements Repository.
func (r *restic) List(ctx context.Context) ([]Snapshot, error) {
	all, err := r.list(ctx)
	if err != nil {
		return nil, cannot("list the snapshots", err)
	}
	var list []Snapshot
	for _, k := range all.kept {
		k.Runs = slices.DeleteFunc(slices.Clone(k.Runs), func(run string) bool { return !all.heads[run] })
		list = append(list, k.Snapshot)
	}
	return list, nil
}

// Load implements Repository. It takes no lock, so that a repository that can only be read
// can be restored from.
func (r *restic) Load(ctx context.Context, s Snapshot, read func(io.Reader) error) error {
	all, err := r.seen(ctx)
	if err != nil {
		return cannot("load "+s.Name, err)
	}
	found, err := all.find(s)
	if err != nil {
		return cannot("load "+s.Name, err)
	}
	args := []string{"dump", "--no-lock", "--", found[0].copies[0], found[0].file}
	return cannot("load "+s.Name, r.run(ctx, call{args: args, take: readWhole(read)}))
}

// readWhole is read that has seen the end where little is left, such as the padding of a tar file: only
// at the end it is known whether the stream was whole.
func readWhole(read func(io.Reader) error) func(io.Reader) error {
	return func(r io.Reader) error {
		err := read(r)
		if err == nil {
			_, _ = io.CopyN(io.Discard, r, 64<<10)
		}
		return err
	}
}

// Check implements Repository.
func (r *restic) Check(ctx context.Context, part, parts int) error {
	if r.Cache != "" { // which a check that was killed leaves behind, as large as the index
		left, _ := filepath.Glob(filepath.Join(r.Cache, "restic-check-cache-*"))
		for _, dir := range left {
			_ = os.RemoveAll(dir)
		}
	}
	// Without this neither check nor dump reads the headers of packs, nor anything the contents of older snapshots.
	_, err := r.lines(ctx, "check", fmt.Sprintf("--read-data-subset=%d/%d", part+1, parts))
	return cannot("check the repository", err)
}

// patiently is run, and again while somebody else works in the repository. feed and take are
// called again then.
func (r *restic) patiently(ctx context.Context, c call) error {
	for try := 0; ; try++ {
		err := r.run(ctx, c)
		if !errors.Is(err, ErrLocked) || try == len(r.pauses) {
			return err
		}
		if free, uerr := r.unlock(ctx, nil); free && uerr == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(r.pauses[try]):
		}
	}
}

// lines is patiently, and returns the lines that restic prints.
func (r *restic) lines(ctx context.Context, args ...string) (lines []string, err error) {
	err = r.patiently(ctx, call{args: args, take: linesTo(&lines)})
	return lines, err
}

func linesTo(lines *[]string) func(io.Reader) error {
	return func(out io.Reader) error {
		text, err := io.ReadAll(out)
		*lines = strings.FieldsFunc(string(text), func(c rune) bool { return c == '\n' })
		return err
	}
}

// newID returns the id of a new snapshot.
func newID() string { return strings.ToLower(rand.Text()) }

func errGone(s Snapshot) error {
	return fmt.Errorf("the snapshot %s of %s is not in the repository any more", s.ID, s.Name)
}

// cannot says what failed.
func cannot(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}
