package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
	"berth/daemon/keyring"
	"berth/db"
)

// Who changes the address of the panel hears which passkeys end.
func TestPasskeysElsewhere(t *testing.T) {
	d, err := MakeDatabase(t.Context(), filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for i, name := range []string{"ana", "bob"} {
		a, err := d.Accounts.CreateAccount(t.Context(), app.Account{Name: name, TotalRAM: 100, Plan: "x", Locale: "en-US"})
		if err != nil {
			t.Fatal(err)
		}
		for n, rp := range []string{"old.example.org", "panel.example.org"} {
			if _, err := d.SignIns.AddPasskey(t.Context(), app.Passkey{Account: a.ID, Credential: []byte{byte(i), byte(n)}, Record: []byte{1}, Name: "key", RP: rp}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for base, want := range map[string]string{
		"":                                "",
		"https://panel.example.org":       "2 passkeys of ana, bob were made at old.example.org, and do not work at https://panel.example.org",
		"https://192.0.2.1":               "4 passkeys of ana, bob were made at old.example.org, panel.example.org, and do not work at https://192.0.2.1",
		"https://old.example.org:8443/x/": "2 passkeys of ana, bob were made at panel.example.org, and do not work at https://old.example.org:8443",
	} {
		if got, err := PasskeysElsewhere(t.Context(), d, base); err != nil || got != want {
			t.Errorf("%s: %q, %v", base, got, err)
		}
	}
}

// A rotation that is killed between its steps leaves every secret readable, and the next one
// leaves one key.
func TestKilledRotation(t *testing.T) {
	killed := errors.New("killed")
	for what, cut := range map[string]func(d *db.DB, ring *keyring.Ring) error{
		"before the commit": func(d *db.DB, ring *keyring.Ring) error {
			_, err := d.Reseal(t.Context(), false, func() (string, error) { return "", errors.Join(killed, onlyError(ring.Make())) })
			return err
		},
		"before the old key goes": func(d *db.DB, ring *keyring.Ring) error {
			_, err := d.Reseal(t.Context(), false, func() (string, error) {
				key, err := ring.Make()
				return key.ID(), err
			})
			return errors.Join(err, killed)
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			d, err := MakeDatabase(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			links, err := d.LinkKey(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := sealSecrets(t.Context(), d, Keys(dir), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			if err := cut(d, Keys(dir)); !errors.Is(err, killed) {
				t.Fatal(err)
			}
			d.UseKeys(Keys(dir)) // of the next process
			if again, err := d.LinkKey(t.Context()); err != nil || !bytes.Equal(again, links) {
				t.Errorf("after that: %v, %v", bytes.Equal(again, links), err)
			}
			if _, _, err := RotateKey(t.Context(), d, dir, Keys(dir), false); err != nil {
				t.Fatal(err)
			}
			if again, err := d.LinkKey(t.Context()); err != nil || !bytes.Equal(again, links) {
				t.Errorf("after the next: %v, %v", bytes.Equal(again, links), err)
			}
			if keys, err := Keys(dir).Keys(); err != nil || len(keys) != 1 {
				t.Errorf("%d keys are left, %v", len(keys), err)
			}
		})
	}
}

func onlyError(_ db.Key, err error) error { return err }

// A start seals with the key that is there, makes one where it can, and goes on where it
// cannot; it says which. What seals once never stores in plain again.
func TestSealSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := MakeDatabase(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	links, err := d.LinkKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	credential := filepath.Join(t.TempDir(), "berth.key")
	given := db.Key{7}
	file := filepath.Join(t.TempDir(), "berth.d", "berth.key")
	nowhere := "/proc/berth.key"
	for _, c := range []struct {
		what    string
		files   []string
		change  func() error
		problem string
		sealed  bool
		key     string
	}{
		{"nowhere to keep a key", []string{nowhere}, nil, "secrets are stored in plain: no file for their key can be made", false, ""},
		{"a place", []string{nowhere, file}, nil, "", true, ""},
		{"the same again", []string{nowhere, file}, nil, "", true, ""},
		{"nowhere to keep another key", []string{nowhere}, nil, "the key that sealed 1 secrets of berth is not there", true, ""},
		{"a file that is damaged", []string{nowhere, file}, func() error { return os.WriteFile(file, []byte("nonsense\n"), 0o600) }, "it is no key: ", true, ""},
		{"a directory", []string{nowhere, file}, func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, "is a directory; new secrets are refused", true, ""},
		{"a credential", []string{credential, file}, func() error {
			_ = os.Remove(file)
			return os.WriteFile(credential, []byte(keyring.Text(given)+"\n"), 0o400)
		}, "the key that sealed 1 secrets of berth is not there", true, given.ID()},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.change != nil {
				if err := c.change(); err != nil {
					t.Fatal(err)
				}
			}
			ring := Keys(dir, c.files...)
			d.UseKeys(ring)
			var log bytes.Buffer
			if err := sealSecrets(t.Context(), d, ring, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			problem, hint, err := SecretsProblem(t.Context(), d, ring)
			if err != nil || (problem != "") != (hint != "") || (problem != "") != (c.problem != "") || !strings.Contains(problem, c.problem) || !strings.Contains(log.String(), c.problem) {
				t.Errorf("%q (%q), %v; the log has %s", problem, hint, err, &log)
			}
			is, err := d.Seals(t.Context())
			if err != nil || (is.Key != "") != c.sealed || c.key != "" && is.Key != c.key {
				t.Errorf("%+v, %v", is, err)
			}
		})
	}
	if again, err := d.LinkKey(t.Context()); err != nil || bytes.Equal(again, links) {
		t.Errorf("without its key the key of links is %v, %v", bytes.Equal(again, links), err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a key was made beside a credential")
	}
}
