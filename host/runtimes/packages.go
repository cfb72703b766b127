package runtimes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"berth/app"
)

// sumLimit bounds the files that packages come from, all together: they are
// read at every start.
const sumLimit = 8 << 20

// notInstalled is the sentence about packages that could not be installed.
func notInstalled(manager, manifest string) app.Text {
	return app.Textf("%s could not install the packages of %s; its output tells why: mostly a name or a version that does not exist, or a registry that does not answer.", manager, manifest)
}

// packages is how the packages of a project are installed.
type packages struct {
	steps []app.Step // none when the project asks for no package

	// recipe tells one way of installing from another, where the files do not.
	recipe string
	from   []string // the files that name them, those that may exist included
	lock   string   // the lock file that is heeded, "" when none is
	locks  []string // all names a lock file of theirs can have

	// mark is a file that is there while they are.
	mark string

	// unclear: they come from files that cannot all be named, such as a folder
	// of the tree or what a script does, and are installed every time.
	unclear bool
}

// wanted returns the steps that install the packages, none when what is
// installed comes from the same, and what to remember of them.
func (pk packages) wanted(p *project) ([]app.Step, string, error) {
	if len(pk.steps) == 0 || pk.unclear {
		return pk.steps, "", nil
	}
	sum, err := pk.sum(p, pk.lock)
	if err != nil || sum == "" {
		return pk.steps, "", err
	}
	same := p.prepared == sum
	if !same && pk.lock != "" && !slices.ContainsFunc(pk.locks, p.files.Brought) {
		// Where there was none the package manager has written its own.
		bare, err := pk.sum(p, "")
		if err != nil {
			return nil, "", err
		}
		if same = p.prepared == bare; same {
			sum = bare
		}
	}
	// A mark in the upload says nothing of what is beside it.
	if same && p.files.Exists(pk.mark) && !p.files.Brought(pk.mark) {
		return nil, sum, nil
	}
	return pk.steps, sum, nil
}

// sum is a digest of all that packages come from, "" when that is too large to
// tell. The runtime's version is part of it: packages are built for one.
func (pk packages) sum(p *project, lock string) (string, error) {
	runtime := p.lang.programs[0].binary
	path, _ := p.tools.Find(runtime)
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", pk.recipe, path, p.tools.Version(runtime))
	names := pk.from
	if lock != "" {
		names = append(slices.Clone(names), lock)
	}
	left := int64(sumLimit)
	for _, name := range names {
		if !p.files.Exists(name) {
			continue
		}
		text, err := p.files.Read(name, left)
		if err != nil {
			return "", fmt.Errorf("cannot read %s: %w", name, err)
		}
		if left -= int64(len(text)); left == 0 {
			return "", nil
		}
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256(text))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
