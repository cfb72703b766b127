package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	writes := func(text string, err error) func(io.Writer) error {
		return func(to io.Writer) error {
			_, failed := io.WriteString(to, text)
			return errors.Join(failed, err)
		}
	}
	full := errors.New("no space left on device")
	for _, tt := range []struct {
		name  string
		force bool
		write func(io.Writer) error
		err   error
		want  string // in the file then
	}{
		{"not written to its end", false, writes("half", full), full, ""},
		{"new", false, writes("first", nil), nil, "first"},
		{"there already", false, writes("second", nil), fs.ErrExist, "first"},
		{"replaced by half", true, writes("half", full), full, "first"},
		{"replaced", true, writes("second", nil), nil, "second"},
	} {
		if err := writeWhole(path, 0o600, tt.force, tt.write); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		text, err := os.ReadFile(path)
		if string(text) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: the file holds %q, %v", tt.name, text, err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 1 {
			t.Errorf("%s: beside it lies %v, %v", tt.name, list, err)
		}
	}
}
