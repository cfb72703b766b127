package runtimes

import (
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// tree is an app.Files in memory.
type tree map[string]string

func (t tree) Exists(path string) bool { _, ok := t[path]; return ok }

func (t tree) Brought(path string) bool { return t.Exists(path) }

func (t tree) Read(path string, limit int64) ([]byte, error) {
	text, ok := t[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text[:min(int64(len(text)), limit)]), nil
}

// tools is a host: its commands, and what each says of its version. A path
// instead is where one lies that programs cannot use.
type tools map[string]string

func (t tools) Find(name string) (path, hidden string) {
	said, ok := t[name]
	switch {
	case !ok:
		return "", ""
	case strings.HasPrefix(said, "/"):
		return "", said
	}
	return "/usr/bin/" + name, ""
}

func (t tools) Version(name string) string {
	if path, _ := t.Find(name); path == "" {
		return ""
	}
	return t[name]
}

func (t tools) Installed(runtime string) []string { return strings.Fields(t["+"+runtime]) }

// With finds the commands of a version below /r.
func (t tools) With(runtime, version string) Tools {
	for _, l := range languages {
		if len(l.programs) > 0 && l.programs[0].runtime == runtime {
			return chosen{t, runtime, l.programs[0].binary, version}
		}
	}
	return t
}

func (tools) Images() bool { return false }

func (tools) Path() string { return "/usr/bin" }

// chosen is a host with one installed runtime before its own.
type chosen struct {
	tools
	runtime, binary, version string
}

func (c chosen) Find(name string) (path, hidden string) {
	if name == c.binary || c.runtime == "node" && name == "npm" {
		return "/r/" + c.runtime + "/" + c.version + "/bin/" + name, ""
	}
	return c.tools.Find(name)
}

func (c chosen) Version(name string) string {
	if name == c.binary {
		return c.version
	}
	return c.tools.Version(name)
}

func (c chosen) Path() string {
	return "/r/" + c.runtime + "/" + c.version + "/bin:" + c.tools.Path()
}

// with is the host with one command more, or another version of it.
func (t tools) with(name, said string) tools {
	more := maps.Clone(t)
	more[name] = said
	return more
}

// without is the host with fewer commands.
func (t tools) without(names ...string) tools {
	fewer := maps.Clone(t)
	for _, name := range names {
		delete(fewer, name)
	}
	return fewer
}

// host has the given programs, which do not tell their versions.
func host(programs ...string) tools {
	t := tools{}
	for _, name := range programs {
		t[name] = ""
	}
	return t
}

// debian is Debian 12 with every language it has.
var debian = tools{
	"node": "20.20.2", "npm": "10.8.2", "python3": "3.11.2", "bash": "5.2.15", "go": "1.19.8", "rustc": "1.63.0", "cargo": "1.65.0",
	"java": "17.0.15", "php": "8.2.29", "composer": "2.5.5", "ruby": "3.1.2", "bundle": "2.3.15",
}

var fullHost = host("node", "npm", "python3", "bash")

// refused checks that err is for the user and says all of the words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if app.KindOf(err) != app.Unusable {
		t.Fatalf("the error is %v, of kind %v", err, app.KindOf(err))
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// argvs returns the commands of the preparation, one string each.
func argvs(p app.Plan) (list []string) {
	for _, s := range p.Prepare {
		list = append(list, strings.Join(s.Argv, " "))
	}
	return list
}

// broken is a tree that cannot be read: the disk's fault, not the user's.
type broken struct{ tree }

func (broken) Read(string, int64) ([]byte, error) { return nil, errors.New("input/output error") }

// half is a commit: some files are the upload's, the others were there before.
type half struct {
	tree
	brought []string
}

func (h half) Brought(path string) bool { return slices.Contains(h.brought, path) }

// samePlan compares what a plan prepares and starts, and looks at its steps:
// each has a remedy, and that of BUILD is shown as its author wrote it.
func samePlan(t *testing.T, got app.Plan, build, lang string, prepare []string, argv string) {
	t.Helper()
	equal(t, "lang", got.Code.Lang, lang)
	equal(t, "prepare", argvs(got), prepare)
	equal(t, "argv", strings.Join(got.Argv, " "), argv)
	for _, s := range got.Prepare {
		if s.OnFail.IsZero() {
			t.Errorf("no remedy for %q", s.Argv)
		}
		if build != "" && strings.HasSuffix(s.Argv[len(s.Argv)-1], build) && s.Text != build {
			t.Errorf("%q is shown as %q, want %q", s.Argv, s.Text, build)
		}
	}
}
