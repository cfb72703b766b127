package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const someStatus = `Package: ffmpeg
Status: install ok installed
Architecture: amd64
Version: 7:5.1.9
Description: Tools
 Package: fake
 .
 Status: install ok installed

Package: gone
Status: deinstall ok config-files

Package: half
Status: install reinstreq half-installed
Provides: nothing

Status: hold ok installed
Package: libgl1-t64
Provides: libgl1 (= 1.6.0), libgl1.so:any,libglx

Package: openssl
Status: hold ok installed`

// list writes dpkg's list anew, as dpkg does.
func list(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"-new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"-new", path); err != nil {
		t.Fatal(err)
	}
}

func TestLacks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	tools := &Tools{packages: packages{path: path}}
	asked := []string{"openssl", "fake", "ffmpeg", "gone", "half", "nothing", "libgl1", "libgl1-t64", "libglx", "absent"}
	if missing, known := tools.Lacks(asked); known || !slices.Equal(missing, asked) {
		t.Errorf("a host without dpkg lacks %v, known %v", missing, known)
	}
	list(t, path, someStatus)
	want := []string{"fake", "gone", "half", "nothing", "absent"}
	if missing, known := tools.Lacks(asked); !known || !slices.Equal(missing, want) {
		t.Errorf("lacks %v, known %v; want %v", missing, known, want)
	}
	if missing, known := tools.Lacks(nil); !known || missing != nil {
		t.Errorf("nothing is asked for, and it lacks %v, known %v", missing, known)
	}
	list(t, path, someStatus+"\n\nPackage: absent\nStatus: install ok installed\n")
	if missing, _ := tools.Lacks([]string{"absent"}); len(missing) > 0 {
		t.Error("what was installed meanwhile is not seen")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, known := tools.Lacks([]string{"absent"}); known {
		t.Error("the list is gone, and it knows")
	}
}

// The list is read once for each state of it.
func TestLacksRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	list(t, path, someStatus)
	p := packages{path: path}
	first, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	first["a mark"] = true
	if again, err := p.read(); err != nil || !again["a mark"] {
		t.Errorf("it was read again: %v", err)
	}
	list(t, path, someStatus+"\n")
	if again, err := p.read(); err != nil || again["a mark"] {
		t.Errorf("it was not read again: %v", err)
	}
}

func TestStatusIsBounded(t *testing.T) {
	long := "Package: a\nStatus: install ok installed\nDescription: " + strings.Repeat("x", maxStatusLine)
	if _, err := readStatus(strings.NewReader(long)); err == nil {
		t.Error("a line of a megabyte was taken")
	}
	if _, err := readStatus(iotest.ErrReader(os.ErrClosed)); err == nil {
		t.Error("a list that cannot be read was taken")
	}
	path := filepath.Join(t.TempDir(), "status")
	list(t, path, someStatus)
	if err := os.Truncate(path, maxStatus+1); err != nil {
		t.Fatal(err)
	}
	if _, err := (&packages{path: path}).read(); err == nil {
		t.Error("a list without end was taken")
	}
}

// This host's own list, where it has one, holds what every Debian does.
func TestLacksOfThisHost(t *testing.T) {
	if _, err := os.Stat(dpkgStatus); err != nil {
		t.Skip("no dpkg here")
	}
	missing, known := FindTools().Lacks([]string{"dpkg", "libc6", "no-such-package"})
	if !known || !slices.Equal(missing, []string{"no-such-package"}) {
		t.Errorf("lacks %v, known %v", missing, known)
	}
}

func FuzzStatus(f *testing.F) {
	f.Add(someStatus)
	f.Add("Package: a\nPackage: b\nStatus: x installed\n\n\n:\nProvides:,,")
	f.Fuzz(func(t *testing.T, text string) {
		installed, err := readStatus(strings.NewReader(text))
		if err != nil {
			return
		}
		for name, there := range installed {
			if there && !strings.Contains(text, name) || there && !strings.Contains(text, " installed") {
				t.Errorf("%q is installed by %q", name, text)
			}
		}
	})
}
