package proc

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// dpkgStatus is where dpkg keeps what is installed: a stanza for each package
// (deb822(5)). dpkg replaces the file by renaming, so that every state of it
// has an identity of its own.
const dpkgStatus = "/var/lib/dpkg/status"

const (
	maxStatus     = 64 << 20 // a hundred times that of a small server
	maxStatusLine = 1 << 20
)

// packages are what is installed, by dpkg's own list. They are read again only
// when that has changed.
type packages struct {
	path string

	mu        sync.Mutex
	of        file
	installed map[string]bool // names, and what they provide
}

// Lacks returns those of the Debian packages that are not installed, in the
// order given. known is false, and missing all of them, where there is no list
// to read. It blocks while the list is read.
func (t *Tools) Lacks(names []string) (missing []string, known bool) {
	installed, err := cmp.Or(t.host, t).packages.read()
	if err != nil {
		return slices.Clone(names), false
	}
	for _, name := range names {
		if !installed[name] {
			missing = append(missing, name)
		}
	}
	return missing, true
}

func (p *packages) read() (map[string]bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := identify(p.path)
	if err != nil {
		return nil, err
	}
	if p.installed != nil && p.of == id {
		return p.installed, nil
	}
	if id.size > maxStatus {
		return nil, errors.New("the list of packages is too large")
	}
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	installed, err := readStatus(io.LimitReader(f, maxStatus))
	if err != nil {
		return nil, err
	}
	p.of, p.installed = id, installed
	return installed, nil
}

// readStatus returns the packages that are installed, and what they provide:
// what replaced a package of an older Debian often goes by its name as well.
func readStatus(r io.Reader) (map[string]bool, error) {
	installed := map[string]bool{}
	var names []string
	there := false
	end := func() {
		for _, name := range names {
			installed[name] = installed[name] || there
		}
		names, there = nil, false
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxStatusLine)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch key {
		case "":
			end()
		case "Package":
			names = append(names, strings.TrimSpace(value))
		case "Status": // "hold ok installed", say
			there = strings.HasSuffix(value, " installed")
		case "Provides": // "a (= 1.2), b"
			for other := range strings.SplitSeq(value, ",") {
				name, _, _ := strings.Cut(strings.TrimSpace(other), " ")
				names = append(names, name)
			}
		}
	}
	end()
	return installed, lines.Err()
}
