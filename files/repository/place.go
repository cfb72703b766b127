package repository

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// archives begins the place of a directory of archives.
const archives = "archives:"

// New returns the repository at a place. It looks at nothing there: Open does. It refuses a
// place that cannot be one, with a sentence for the owner of the host.
func New(o Options) (Repository, error) {
	if err := checkPlace(o.Place); err != nil {
		return nil, err
	}
	if path, is := strings.CutPrefix(o.Place, archives); is {
		return &directory{path: path}, nil
	}
	if o.Key == "" {
		return nil, ErrNoKey
	}
	return newRestic(o), nil
}

// scheme is what restic takes before a place that is no path of this host.
var scheme = regexp.MustCompile(`^[a-z][a-z0-9]*:`)

func checkPlace(place string) error {
	kind := scheme.FindString(place)
	rest := place[len(kind):]
	host := strings.TrimPrefix(rest, "//")
	host = host[strings.LastIndexByte(strings.SplitN(host, "/", 2)[0], '@')+1:]
	switch {
	case rest == "":
		return errors.New("no place for the backups: name one, such as s3:https://HOST/BUCKET, sftp:USER@HOST:/PATH or archives:/PATH")
	case place[0] == '-' || rest[0] == '-' || kind == "sftp:" && strings.HasPrefix(host, "-"):
		return fmt.Errorf("the place %q of the backups is refused: what begins with \"-\" is an option, and no place", place)
	case strings.ContainsFunc(place, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("the place %q of the backups is refused: it has a control character", place)
	case (kind == "" || kind == archives || kind == "local:") && rest[0] != '/':
		return fmt.Errorf("the place %q of the backups is refused: the path is relative; begin it with \"/\"", place)
	}
	return nil
}

// userinfo is the user and the password in a URL. The password may have a slash in it, where its
// owner forgot to escape that; what follows a host and its port is no password.
var (
	userinfo = regexp.MustCompile(`^([^:@/]*):(.*)@`)
	hostPort = regexp.MustCompile(`^[^:@/]*:[0-9]+/`)
)

// splitPassword returns a place without its password, and the password.
func splitPassword(place string) (string, string) {
	before, after, _ := strings.Cut(place, "://")
	found := userinfo.FindStringSubmatch(after)
	if found == nil || hostPort.MatchString(after) {
		return place, ""
	}
	return before + "://" + found[1] + "@" + after[len(found[0]):], found[2]
}

// Public returns a place as anybody may see it: without its password.
func Public(place string) string {
	public, _ := splitPassword(place)
	return public
}

// What becomes a tag of restic or the name of a file is checked, though berth makes it: a comma
// would be two tags, and ".." another directory.
var (
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$`)
	runForm   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	labelForm = regexp.MustCompile(`^[A-Za-z0-9_.:/-]*$`)
)

func checkName(name string, labels map[string]string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name of a snapshot", name)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key == "" || !labelForm.MatchString(key) || !labelForm.MatchString(labels[key]) {
			return fmt.Errorf("%q=%q is no label of a snapshot", key, labels[key])
		}
	}
	return nil
}

func checkRuns(runs ...string) error {
	for _, run := range runs {
		if !runForm.MatchString(run) {
			return fmt.Errorf("%q is no name of a backup", run)
		}
	}
	return nil
}
