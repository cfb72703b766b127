package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// The tags of a snapshot. All of a run have its tag; the head has one more, the last to come. Without it
// the run is none.
const (
	ourTag   = "berth"
	idTag    = "id="
	nameTag  = "name="
	labelTag = "label:"
	runTag   = "run="
	headTag  = "head="
)

// tagsOf returns the tags of a snapshot that is of no run yet.
func tagsOf(s Snapshot) []string {
	tags := []string{ourTag, idTag + s.ID, nameTag + s.Name}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		tags = append(tags, labelTag+key+"="+s.Labels[key])
	}
	return tags
}

// kept is a snapshot as the repository has it. Its runs are those of its tags, whole or not.
type kept struct {
	Snapshot
	copies []string // what restic calls it; two when a process was killed while it changed the tags
	heads  []string // the runs that it is the head of
	file   string   // the path of its one file
}

// of reports whether it has a tag of the run.
func (k kept) of(run string) bool {
	return slices.Contains(k.Runs, run) || slices.Contains(k.heads, run)
}

// listing is what is in the repository.
type listing struct {
	kept  []kept          // the newest first
	heads map[string]bool // the runs that there are, by their heads
	// torn says that a snapshot cannot be read. It may be the head of a run, so a run without one may
	// be a run.
	torn bool
}

// find returns the snapshots, in the order of which.
func (l listing) find(which ...Snapshot) ([]kept, error) {
	var found []kept
	for _, s := range which {
		at := slices.IndexFunc(l.kept, func(k kept) bool { return k.ID == s.ID })
		if at < 0 {
			return nil, errGone(s)
		}
		found = append(found, l.kept[at])
	}
	return found, nil
}

// list reads what is in the repository. It takes no lock: a snapshot is one file.
func (r *restic) list(ctx context.Context) (listing, error) {
	var found []struct {
		ID   string    `json:"id"`
		Time time.Time `json:"time"`
		Tags []string  `json:"tags"`
		Path []string  `json:"paths"`
	}
	all := listing{heads: map[string]bool{}}
	r.known = nil
	err := r.run(ctx, call{
		args: []string{"snapshots", "--json", "--no-lock", "--tag", ourTag},
		take: func(out io.Reader) error {
			err := json.NewDecoder(out).Decode(&found)
			_, _ = io.Copy(io.Discard, out)
			return err
		},
		said: func(said string) { all.torn = damage.MatchString(said) },
	})
	if err != nil {
		return all, err
	}
	byID := map[string]*kept{}
	for _, f := range found {
		k := parseTags(f.Tags)
		if k.ID == "" || k.Name == "" {
			continue
		}
		k.At, k.copies, k.file = f.Time, []string{f.ID}, fileOf(k.Name)
		if !slices.Contains(f.Path, k.file) {
			k.file = "/" + k.Name // older berths gave it directories
		}
		for _, run := range k.heads {
			all.heads[run] = true
		}
		if first := byID[k.ID]; first != nil {
			first.copies = append(first.copies, f.ID)
			first.Runs = slices.Compact(slices.Sorted(slices.Values(append(first.Runs, k.Runs...))))
			first.heads = append(first.heads, k.heads...)
			continue
		}
		byID[k.ID] = &k
	}
	for _, k := range byID {
		all.kept = append(all.kept, *k)
	}
	slices.SortFunc(all.kept, func(a, b kept) int { return newer(a.Snapshot, b.Snapshot) })
	r.known = &all
	return all, nil
}

// seen is list, unless what is there is known.
func (r *restic) seen(ctx context.Context) (listing, error) {
	if r.known != nil {
		return *r.known, nil
	}
	return r.list(ctx)
}

// newer compares snapshots for an order with the newest first.
func newer(a, b Snapshot) int {
	if by := b.At.Compare(a.At); by != 0 {
		return by
	}
	return strings.Compare(a.ID, b.ID)
}

func parseTags(tags []string) kept {
	k := kept{Snapshot: Snapshot{Labels: map[string]string{}}}
	for _, tag := range tags {
		if id, is := strings.CutPrefix(tag, idTag); is {
			k.ID = id
		}
		if name, is := strings.CutPrefix(tag, nameTag); is {
			k.Name = name
		}
		if label, is := strings.CutPrefix(tag, labelTag); is {
			key, value, _ := strings.Cut(label, "=")
			k.Labels[key] = value
		}
		if run, is := strings.CutPrefix(tag, runTag); is {
			k.Runs = append(k.Runs, run)
		}
		if run, is := strings.CutPrefix(tag, headTag); is {
			k.Runs, k.heads = append(k.Runs, run), append(k.heads, run)
		}
	}
	k.Runs = slices.Compact(slices.Sorted(slices.Values(k.Runs)))
	return k
}

// Commit implements Repository. It returns what restic added for them; 0.14 says how much that is
// before it is compressed.
func (r *restic) Commit(ctx context.Context, run string, head Snapshot, others []Snapshot) (int64, error) {
	what := "make the backup " + run
	if err := checkRuns(run); err != nil {
		return 0, err
	}
	all, err := r.seen(ctx)
	if err != nil {
		return 0, cannot(what, err)
	}
	first, err := all.find(others...)
	if err != nil {
		return 0, cannot(what, err)
	}
	last, err := all.find(head)
	if err != nil {
		return 0, cannot(what, err)
	}
	// A run of this name that was cut short must not lend its snapshots to this one.
	loose := slices.DeleteFunc(slices.Clone(all.kept), func(k kept) bool {
		return !k.of(run) || k.ID == head.ID || slices.ContainsFunc(others, func(s Snapshot) bool { return s.ID == k.ID })
	})
	if all.heads[run] && (len(loose) > 0 || !slices.Contains(last[0].heads, run)) {
		return 0, cannot(what, errors.New("there is another backup of that name"))
	}
	if err := r.tag(ctx, loose, "--remove", runTag+run); err != nil {
		return 0, cannot(what, err)
	}
	if err := r.tag(ctx, first, "--add", runTag+run); err != nil {
		return 0, cannot(what, err)
	}
	if err := r.tag(ctx, last, "--add", headTag+run); err != nil {
		return 0, cannot(what, err)
	}
	var added int64
	for _, s := range append([]Snapshot{head}, others...) {
		added += r.added[s.ID]
		delete(r.added, s.ID)
	}
	return added, nil
}

// batch is how many snapshots one run of restic gets: their names are arguments.
const batch = 500

// tag adds or removes tags. restic does what it can and reports no failure for what it cannot, so it is
// looked at afterwards.
func (r *restic) tag(ctx context.Context, which []kept, how string, tags ...string) error {
	has := func(k kept, tag string) bool {
		if run, is := strings.CutPrefix(tag, headTag); is {
			return slices.Contains(k.heads, run)
		}
		return k.of(strings.TrimPrefix(tag, runTag))
	}
	done := func(k kept) bool {
		return !slices.ContainsFunc(tags, func(tag string) bool { return has(k, tag) != (how == "--add") })
	}
	which = slices.DeleteFunc(slices.Clone(which), done)
	var counted, said int
	for part := range slices.Chunk(which, batch) {
		args := []string{"tag"}
		for _, tag := range tags {
			args = append(args, how, tag)
		}
		args = append(args, "--")
		for _, k := range part {
			args = append(args, k.copies...)
			counted += len(k.copies)
		}
		r.known = nil
		lines, err := r.lines(ctx, args...)
		if err != nil {
			return err
		}
		for _, line := range lines {
			var n int
			if _, err := fmt.Sscanf(line, "modified tags on %d snapshots", &n); err == nil {
				said += n
			}
		}
	}
	if said == counted {
		return nil
	}
	all, err := r.list(ctx)
	if err != nil {
		return err
	}
	for _, k := range which {
		now, err := all.find(k.Snapshot)
		if err != nil {
			return err
		}
		if !done(now[0]) {
			return fmt.Errorf("restic did not change the tags of %s", k.Name)
		}
	}
	return nil
}

// Drop implements Repository. The heads go first: without one a run is none.
func (r *restic) Drop(ctx context.Context, runs []string) error {
	if err := checkRuns(runs...); err != nil {
		return err
	}
	all, err := r.seen(ctx)
	if err != nil {
		return cannot("remove backups", err)
	}
	dropped := func(run string) bool { return slices.Contains(runs, run) }
	var heads, others []kept
	for _, k := range all.kept {
		switch {
		case slices.ContainsFunc(k.heads, dropped):
			heads = append(heads, k)
		case slices.ContainsFunc(k.Runs, dropped):
			others = append(others, k)
		}
	}
	var tags []string
	for _, run := range runs {
		tags = append(tags, headTag+run, runTag+run)
	}
	for _, part := range [][]kept{heads, others} {
		var forget, remain []kept
		for _, k := range part {
			if slices.ContainsFunc(k.Runs, func(run string) bool { return !dropped(run) && (all.heads[run] || all.torn) }) {
				remain = append(remain, k)
			} else {
				forget = append(forget, k)
			}
		}
		if err := errors.Join(r.forget(ctx, forget), r.tag(ctx, remain, "--remove", tags...)); err != nil {
			return cannot("remove backups", err)
		}
	}
	return nil
}

// forget removes snapshots.
func (r *restic) forget(ctx context.Context, which []kept) error {
	for part := range slices.Chunk(which, batch) {
		args := []string{"forget", "--"}
		for _, k := range part {
			args = append(args, k.copies...)
		}
		r.known = nil
		if _, err := r.lines(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Prune implements Repository.
func (r *restic) Prune(ctx context.Context) error {
	all, err := r.list(ctx)
	if err != nil {
		return cannot("free what no backup needs", err)
	}
	var forget, loose []kept
	var tags []string
	for _, k := range all.kept {
		cut := slices.DeleteFunc(slices.Clone(k.Runs), func(run string) bool { return all.heads[run] || all.torn })
		switch {
		case len(cut) == len(k.Runs):
			forget = append(forget, k)
		case len(cut) > 0:
			loose = append(loose, k)
			for _, run := range cut {
				tags = append(tags, runTag+run)
			}
		}
	}
	tags = slices.Compact(slices.Sorted(slices.Values(tags)))
	err = errors.Join(r.forget(ctx, forget), r.tag(ctx, loose, "--remove", tags...))
	if err == nil {
		_, err = r.lines(ctx, "prune")
	}
	return cannot("free what no backup needs", err)
}
