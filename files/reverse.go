package files

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// What a reverser knows and changes of the tree to be.

// look returns what is at path.
func (r *reverser) look(path string) (print, bool, error) {
	if p, ok := r.own[path]; ok {
		return p, true, nil
	}
	if r.del[path] {
		return print{}, false, nil
	}
	parent, name := split(path)
	d, err := r.live.sub(parent)
	if gone(err) {
		return print{}, false, nil
	}
	if err != nil {
		return print{}, false, err
	}
	defer d.close()
	st, err := d.stat(name)
	if gone(err) {
		return print{}, false, nil
	}
	p := printOf(&st)
	if m, ok := r.modes[path]; ok {
		p.mode = m.to
	}
	return p, err == nil, err
}

// stay notes that what is at path stays.
func (r *reverser) stay(path string) {
	if !r.told[path] {
		r.told[path] = true
		r.stays = append(r.stays, path)
	}
}

// remove takes away what is at path: a directory MUST be empty.
func (r *reverser) remove(path string) error {
	parent, name := split(path)
	if _, ok := r.own[path]; ok {
		delete(r.own, path)
		r.kids[parent]--
	}
	delete(r.modes, path)
	// Of what never was in own, src may have it as a directory on the way.
	if d, err := r.src.sub(parent); err == nil {
		err = removeTree(context.Background(), d, name)
		d.close()
		if err != nil {
			return err
		}
	}
	d, err := r.live.sub(parent)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	st, err := d.stat(name)
	if gone(err) {
		return nil
	}
	if err == nil {
		r.del[path], r.dirs[path] = true, isDir(&st)
	}
	return err
}

// removeEmpty removes a directory if nothing is in it, and reports whether.
func (r *reverser) removeEmpty(path string) (bool, error) {
	if r.kids[path] > 0 {
		return false, nil
	}
	d, err := r.live.sub(path)
	if err != nil && !gone(err) {
		return false, err
	}
	if err == nil {
		err = d.each(func(name string) error {
			if r.del[join(path, name)] {
				return nil
			}
			return unix.ENOTEMPTY
		})
		d.close()
		if errors.Is(err, unix.ENOTEMPTY) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, r.remove(path)
}

// makeParents makes the directory at path and those above it where they are
// missing, also on the way in src. It reports false when something else is in
// the way.
func (r *reverser) makeParents(path string) (bool, error) {
	at := ""
	for rest, more := path, path != "."; more; {
		var name string
		name, rest, more = cut(rest)
		if at == "" {
			at = name
		} else {
			at += "/" + name
		}
		now, there, err := r.look(at)
		switch {
		case err != nil:
			return false, err
		case there && !now.isDir():
			return false, nil
		case !there:
			err = r.makeDir(at, 0o755)
		default:
			err = r.onTheWay(at, now.mode)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// makeDir makes an empty directory at path, and those above it.
func (r *reverser) makeDir(path string, mode uint32) error {
	parent, _ := split(path)
	if free, err := r.makeParents(parent); err != nil || !free {
		return err
	}
	if err := r.onTheWay(path, mode); err != nil {
		return err
	}
	r.have(path, print{kind: unix.S_IFDIR, mode: mode})
	return nil
}

// onTheWay makes the directory at path in src if it is not there; the one above
// it is.
func (r *reverser) onTheWay(path string, mode uint32) error {
	parent, name := split(path)
	d, err := r.src.sub(parent)
	if err != nil {
		return err
	}
	defer d.close()
	if _, err := d.stat(name); err == nil {
		return nil
	}
	made, err := d.mkdir(name, mode, r.uid)
	made.close()
	return err
}

// have notes that path is in src.
func (r *reverser) have(path string, p print) {
	if _, ok := r.own[path]; !ok {
		parent, _ := split(path)
		r.kids[parent]++
	}
	r.own[path] = p
	delete(r.del, path)
	delete(r.modes, path)
}

// adopt notes what was brought back to path of src, whose directory is d.
func (r *reverser) adopt(ctx context.Context, d dir, path string) error {
	_, name := split(path)
	st, err := d.stat(name)
	if err != nil {
		return err
	}
	r.have(path, printOf(&st))
	if !isDir(&st) {
		return nil
	}
	below, err := d.sub(name)
	if err != nil {
		return err
	}
	defer below.close()
	return walk(ctx, below, func(v visit) error {
		r.have(join(path, v.path), printOf(&v.st))
		return nil
	})
}

// setMode gives a directory another mode.
func (r *reverser) setMode(path string, is, to uint32) {
	if p, ok := r.own[path]; ok {
		p.mode = to
		r.own[path] = p
		return
	}
	if m, ok := r.modes[path]; ok {
		is = m.is
	}
	r.modes[path] = modes{is, to}
}

// chmod gives the directories of src their modes.
func (r *reverser) chmod() error {
	set := func(path string, mode uint32) error {
		parent, name := split(path)
		d, err := r.src.sub(parent)
		if err != nil {
			return err
		}
		defer d.close()
		return chmodDir(d, name, mode)
	}
	for path, p := range r.own {
		if p.isDir() {
			if err := set(path, p.mode); err != nil {
				return err
			}
		}
	}
	for path, m := range r.modes {
		parent, _ := split(path)
		if free, err := r.makeParents(parent); err != nil || !free {
			return err
		}
		if err := errors.Join(r.onTheWay(path, m.to), set(path, m.to)); err != nil {
			return err
		}
	}
	return nil
}

// manifest is what src is compared with: what it lacks of that is deleted, the
// rest of it is put into place.
func (r *reverser) manifest() manifest {
	m := make(manifest)
	for path := range r.del {
		if _, back := r.own[path]; back {
			continue
		}
		mode := uint32(unix.S_IFREG)
		if r.dirs[path] {
			mode = unix.S_IFDIR
		}
		m[path] = meta{mode: mode}
	}
	for path, is := range r.modes {
		m[path] = meta{mode: unix.S_IFDIR | is.is}
	}
	return m
}
