package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"berth/app/exit"
)

// contexts is what the user's configuration remembers of servers: a file with mode 0600
// in a directory with mode 0700.
type contexts struct {
	Current  string                  `json:"current"` // the context that commands use; "" for none
	Contexts map[string]savedContext `json:"contexts"`
	// Applications are those that directories were deployed to, by the directory's path.
	Applications map[string]savedApp `json:"applications,omitempty"`
}

// savedContext is a server, and the token for it.
type savedContext struct {
	URL        string    `json:"url"`
	Token      string    `json:"token"`
	Account    string    `json:"account"`              // name of the account, as the server said at login
	PlainToken bool      `json:"plainToken,omitempty"` // the token may cross a network in plain HTTP
	TokenID    int64     `json:"tokenId,omitempty"`    // number of a token that login made; 0 for one that it was given
	Expires    time.Time `json:"expires,omitzero"`     // of the token; zero if that is not known
}

// savedApp is an application of a context; the context is "" on the host itself.
type savedApp struct {
	Context string `json:"context"`
	ID      string `json:"id"`
}

// contextsFile is where they are. The error is that of a user without a home.
func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", exit.NewProblem(exit.Failure, fmt.Errorf("cannot find the directory of your configuration: %w", err),
			"Hint: set HOME, or BERTH_URL and BERTH_TOKEN.")
	}
	return filepath.Join(dir, "berth", "contexts.json"), nil
}

// loadContexts reads them; a user who has none yet has empty ones. It refuses a file that
// others can read, for it holds tokens.
func loadContexts() (*contexts, error) {
	all := &contexts{Contexts: map[string]savedContext{}, Applications: map[string]savedApp{}}
	path, err := contextsFile()
	if err != nil {
		return all, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("cannot read your contexts: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return all, exit.NewProblem(exit.Permission, fmt.Errorf("cannot use %s: other users may read the tokens in it", path), "Hint: chmod 600 "+path)
	}
	if err == nil {
		err = json.NewDecoder(f).Decode(all)
	}
	if err != nil {
		return all, exit.NewProblem(exit.Config, fmt.Errorf("cannot read %s: %w", path, err), "Hint: mend the file, or remove it and run berth login again.")
	}
	if all.Contexts == nil {
		all.Contexts = map[string]savedContext{}
	}
	if all.Applications == nil {
		all.Applications = map[string]savedApp{}
	}
	return all, nil
}

// changeContexts changes what is remembered. The new file takes the place of the old one
// at once, so that a full disk leaves the old one.
func changeContexts(change func(*contexts) error) error {
	all, err := loadContexts()
	if err == nil {
		err = change(all)
	}
	if err != nil {
		return err
	}
	path, err := contextsFile()
	if err != nil {
		return err
	}
	if err := saveContexts(path, all); err != nil {
		return fmt.Errorf("cannot store your contexts: %w", err)
	}
	return nil
}

func saveContexts(path string, all *contexts) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeWhole(path, 0o600, true, func(to io.Writer) error {
		out := json.NewEncoder(to)
		out.SetIndent("", "  ")
		return out.Encode(all)
	})
}

// appOf returns the application that a directory, or else the nearest one above it, was
// deployed to.
func (all *contexts) appOf(dir string) (savedApp, bool) {
	for {
		if a, known := all.Applications[dir]; known {
			return a, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return savedApp{}, false
		}
		dir = up
	}
}
