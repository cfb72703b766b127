package settings

import (
	"bufio"
	"os"
	"strings"
)

// KnownPassword reports whether a password is a line of panel.passwords, in whatever case;
// false without that setting. It reads the whole file, and fails when it cannot.
func (s Settings) KnownPassword(password string) (bool, error) {
	if s.Panel.Passwords == "" {
		return false, nil
	}
	f, err := os.Open(s.Panel.Passwords)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.EqualFold(lines.Text(), password) {
			return true, nil
		}
	}
	return false, lines.Err()
}
