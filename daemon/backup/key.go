package backup

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"berth/daemon/keyring"
	"berth/db"
)

// keyPrefix begins the backup key, so that who finds it knows what it is.
const keyPrefix = "berth-backup-"

// keyWork is the work factor of scrypt (log2 N) for the keys of secrets under the backup key, which nobody can
// guess: it has 130 random bits. The default for a passphrase would take 256 MB of memory.
const keyWork = 10

// ReadKey returns the backup key in a file: the password of the repository, which also opens
// KeysPart. It fails with fs.ErrNotExist where there is none.
func ReadKey(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the backup key: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return CheckKey(line)
		}
	}
	return "", fmt.Errorf("cannot read the backup key: there is none in %s", file)
}

// CheckKey returns what somebody wrote as the backup key without spaces around it. A password
// that another program set for the repository is one too.
func CheckKey(text string) (string, error) {
	key := strings.TrimSpace(text)
	if len(key) < 12 || len(key) > 1000 || strings.ContainsAny(key, "\r\n\x00") {
		return "", errors.New("it is no backup key: expected one line of 12 to 1000 characters")
	}
	return key, nil
}

const keyHead = "# berth opens its backups with this key. Without it nobody can read them: keep a copy in a safe\n" +
	"# place away from this machine (berth backup key).\n"

// NewKey returns a new random key. StoreKey stores it.
func NewKey() string { return keyPrefix + strings.ToLower(rand.Text()) }

// KeyID names a backup key, and tells nothing of it: eight hexadecimal digits.
func KeyID(key string) string {
	sum := sha256.Sum256([]byte("berth backup key id " + key))
	return hex.EncodeToString(sum[:4])
}

// StoreKey puts a key into a file that is not there yet. It returns once the key is on the disk.
func StoreKey(file, key string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("cannot store the backup key: %w", err)
	}
	part := file + ".part"
	_ = os.Remove(part) // what a crash left
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot store the backup key: %w", err)
	}
	_, err = f.WriteString(keyHead + key + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(part, file) // one that is there stays
	}
	if err = errors.Join(err, os.Remove(part), syncDir(filepath.Dir(file))); err != nil {
		return fmt.Errorf("cannot store the backup key: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WrapKeys returns keys of secrets under a passphrase, the content of KeysPart; nil for no
// keys. random says that the passphrase is a backup key, which needs less protection against guesses.
func WrapKeys(keys []db.Key, passphrase string, random bool) ([]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	if random {
		to.SetWorkFactor(keyWork)
	}
	var wrapped bytes.Buffer
	w, err := age.Encrypt(&wrapped, to)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if _, err := io.WriteString(w, keyring.Text(key)+"\n"); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return wrapped.Bytes(), err
}

// ErrPassphrase is the error of keys that another passphrase opens.
var ErrPassphrase = errors.New("the passphrase is wrong, or the key is damaged")

// UnwrapKeys is the inverse of WrapKeys.
func UnwrapKeys(wrapped []byte, passphrase string) (keys []db.Key, err error) {
	with, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, errors.New("the passphrase is empty")
	}
	r, err := age.Decrypt(bytes.NewReader(wrapped), with)
	if err != nil {
		return nil, ErrPassphrase
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		key, err := keyring.Parse(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
