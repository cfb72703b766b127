package importer

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// fakeMachine is a machine with these files, by their paths.
type fakeMachine map[string]string

// ReadFile implements Machine.
func (m fakeMachine) ReadFile(file string, limit int64) ([]byte, error) {
	text, is := m[path.Clean(file)]
	if !is || int64(len(text)) > limit {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

// IsFile implements Machine.
func (m fakeMachine) IsFile(file string) bool { _, is := m[path.Clean(file)]; return is }

// IsDir implements Machine.
func (m fakeMachine) IsDir(dir string) bool {
	for file := range m {
		if strings.HasPrefix(file, path.Clean(dir)+"/") {
			return true
		}
	}
	return false
}

// Home implements Machine.
func (m fakeMachine) Home(user string) string {
	if user == "" {
		user = "ana"
	}
	return "/home/" + user
}

// names of the variables.
func names(c Candidate) string {
	var all []string
	for _, v := range c.Variables {
		all = append(all, v.Name)
	}
	return strings.Join(all, " ")
}

// wantNotes checks that each of some texts is in a note.
func wantNotes(t *testing.T, c Candidate, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(c.Notes, func(note string) bool { return strings.Contains(note, text) }) {
			t.Errorf("%s: no note says %q: %q", c.From, text, c.Notes)
		}
	}
}

// silent checks that no text of a candidate has a secret.
func silent(t *testing.T, c Candidate, secrets ...string) {
	t.Helper()
	text := strings.Join(append([]string{c.From, c.Dir, c.Refusal, c.Stop, c.Config.Name, c.Config.Main, c.RAMFrom}, c.Notes...), "\n")
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s tells %q: %s", c.From, secret, text)
		}
	}
}

func valueOf(c Candidate, name string) string {
	i := slices.IndexFunc(c.Variables, func(v app.Variable) bool { return v.Name == name })
	if i < 0 {
		return ""
	}
	return c.Variables[i].Value
}
