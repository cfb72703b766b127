package keyring

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/db"
)

// Ring is the keys of some files. The first file that is there holds the key that seals, and
// new keys; where there is no file, the first that can be made.
type Ring struct {
	files []string
	owner string // a path whose owner is the files' as well

	mu   sync.Mutex
	keys map[string]db.Key // as they were read last
}

// Open returns the ring of some files, none of which has to be there. A new file gets the owner
// of the path owner, if it may. Nothing is read yet.
func Open(owner string, files ...string) *Ring { return &Ring{owner: owner, files: files} }

// Key implements db.Keys. It reads the files again when they had no key of that id: it may have
// been put there since. A file that is there and cannot be read is an error.
func (r *Ring) Key(id string) (db.Key, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key, ok := r.keys[id]; ok {
		return key, true, nil
	}
	all, err := r.Keys()
	if err != nil {
		return db.Key{}, false, err
	}
	r.keys = map[string]db.Key{}
	for _, key := range all {
		r.keys[key.ID()] = key
	}
	key, ok := r.keys[id]
	return key, ok, nil
}

// Keys returns every key. The first one seals new secrets. Keys fails if it cannot read one of the
// files, unless that file does not exist: no other file takes its place.
func (r *Ring) Keys() (all []db.Key, err error) {
	for _, file := range r.files {
		keys, err := readFile(file)
		if err != nil && !isMissing(err) {
			return nil, fmt.Errorf("cannot read the keys of the secrets: %w", err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// isMissing reports whether an error of reading a file says that there is no such file.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func readFile(file string) (keys []db.Key, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for n, line := range bytes.Split(content, []byte("\n")) {
		text := string(bytes.TrimSpace(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		key, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", n+1, file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// File returns the file that holds the key that seals: the first that is there, "" without any.
func (r *Ring) File() string {
	for _, file := range r.files {
		if unix.Access(file, unix.R_OK) == nil {
			return file
		}
	}
	return ""
}

// Make makes a new key, which seals from then on, and keeps the others. It returns once the key
// is on the disk.
func (r *Ring) Make() (db.Key, error) {
	var key db.Key
	rand.Read(key[:]) // never fails, see crypto/rand
	return key, r.change(func(keys []db.Key) []db.Key { return append([]db.Key{key}, keys...) })
}

// Add adds a key that was there before; another one goes on to seal, if there is one.
func (r *Ring) Add(key db.Key) error {
	return r.change(func(keys []db.Key) []db.Key {
		if slices.Contains(keys, key) {
			return keys
		}
		return append(keys, key)
	})
}

// Keep removes every key but that of an id.
func (r *Ring) Keep(id string) error {
	return r.change(func(keys []db.Key) []db.Key {
		return slices.DeleteFunc(keys, func(k db.Key) bool { return k.ID() != id })
	})
}

// change changes the keys of the file that holds the first.
func (r *Ring) change(to func(keys []db.Key) []db.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = nil
	files := r.files
	if file := r.File(); file != "" {
		files = []string{file}
	}
	var errs error
	for _, file := range files {
		keys, err := readFile(file)
		if err != nil && !isMissing(err) {
			errs = errors.Join(errs, err)
			break // it may hold the keys that another file would take the place of
		}
		if err = r.write(file, to(keys)); err == nil {
			return nil
		}
		errs = errors.Join(errs, err)
	}
	return fmt.Errorf("cannot store the keys of the secrets: %w", errs)
}

const head = "# berth seals the secrets in its database with the first of these keys. Without them nobody can\n" +
	"# read the secrets: keep a copy in a safe place (berth key show), and none beside the backups.\n"

// write replaces a file, or makes it, with its directory.
func (r *Ring) write(file string, keys []db.Key) (err error) {
	text := head
	for _, key := range keys {
		text += Text(key) + "\n"
	}
	part := file + ".part"
	_ = os.Mkdir(filepath.Dir(file), 0o755) // it may be there
	_ = os.Remove(part)                     // what a crash left
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	if info, failed := os.Stat(r.owner); failed == nil && os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		err = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, file); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

const prefix = "berth-key-"

// Text is a key as people keep it: berth-key-, its id, which tells of a slip of the pen, and the key in
// base64url.
func Text(key db.Key) string {
	return prefix + key.ID() + "-" + base64.RawURLEncoding.EncodeToString(key[:])
}

// Parse reads a key as Text writes it. Its error repeats nothing of it.
func Parse(text string) (db.Key, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), prefix), "-")
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	if !ok || err != nil || len(raw) != len(db.Key{}) {
		return db.Key{}, errors.New("it is no key: expected berth-key-, eight digits, - and 43 characters")
	}
	key := db.Key(raw)
	if key.ID() != id {
		return db.Key{}, errors.New("it is no key: its characters do not fit its number, so that one of them is wrong")
	}
	return key, nil
}
