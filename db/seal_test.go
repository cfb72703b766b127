package db

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// keys are those of a test.
type keys map[string]Key

func (k keys) Key(id string) (Key, bool, error) {
	key, ok := k[id]
	return key, ok, nil
}

// unread are keys that cannot be read, if err is set.
type unread struct {
	keys
	err error
}

func (k *unread) Key(id string) (Key, bool, error) {
	if k.err != nil {
		return Key{}, false, k.err
	}
	return k.keys.Key(id)
}

// add makes a key of one byte and returns its id.
func (k keys) add(b byte) string {
	key := Key(bytes.Repeat([]byte{b}, len(Key{})))
	k[key.ID()] = key
	return key.ID()
}

// mustReseal seals everything with a key that there is.
func mustReseal(t *testing.T, db *DB, id string) []Secret {
	t.Helper()
	lost, err := db.Reseal(t.Context(), false, func() (string, error) { return id, nil })
	must(t, err)
	return lost
}

// plain are the columns of bytes and text that hold no secret which is read again: hashes, what
// people are called, what they are shown, and what identifies a row.
var plain = strings.Fields(`
	account.external_id account.locale account.name account.plan account.suspended_why acme_account.ca app.apts app.avatar_url app.build_command app.health app.id app.lang app.main app.memory_signal
	app.name app.packages app.start_command app.version app.wanted auto_start.app audit.address audit.app audit.app_name audit.detail audit.label audit.name
	audit.operation audit.refusal audit.request certificate.ca certificate.chain channel.apps channel.kinds channel.lang channel.name channel.recipient channel.service channel.stopped
	icon.app icon.png icon.sum
	delivery.message delivery.state delivery.why notice.app notice.args notice.happened notice.kind notice_use.what life.boot life.version trouble.app trouble.last trouble.topic
	 certificate.name certificate.problem deploy.app deploy.brought
	deploy.build_command deploy.health deploy.journal deploy.kind deploy.lang deploy.main deploy.memory_signal deploy.note deploy.packages deploy.start_command deploy.version
	domain.app domain.name domain.proof domain.status backup_state.shown backup_run.error backup_run.kind backup_run.place backup_run.missing backup_run.run hold.peer hold.why snapshot.app snapshot.run env.app env.name event.app event.deploy event.kind event.memory_signal event.text exit_record.app host_token.hash host_token.label identity.issuer identity.name identity.subject invitation.hash
	member.app meta.cluster meta.group_name meta.link_key meta.seal_key offer.hash offer.proposed offer_app.app new_sign_in.address new_sign_in.agent passkey.credential passkey.name passkey.record passkey.rp passkey_user.handle
	password.hash place.id recovery_code.hash rule.name session.address session.agent
	session.hash session.proved_from subdomain.id
	subdomain.place token.hash token.label token_app.app`)

// Who adds a column says whether it holds a secret: then it belongs into sealedColumns, and
// this test finds out whether what is stored there is sealed.
func TestEveryColumnOfSecretsIsSealed(t *testing.T) {
	db, _ := openTemp(t)
	all := keys{}
	db.UseKeys(all)
	mustReseal(t, db, all.add(1))
	var sealed []string
	for _, c := range sealedColumns {
		sealed = append(sealed, c.table+"."+c.column)
	}
	found, err := getAll(t.Context(), db, "list the columns", value[string],
		"SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND c.type IN ('TEXT', 'BLOB', 'ANY')")
	must(t, err)
	for _, column := range found {
		if slices.Contains(sealed, column) == slices.Contains(plain, column) {
			t.Errorf("the column %s is to be in one of sealedColumns and plain", column)
		}
	}
	for _, column := range slices.Concat(sealed, plain) {
		if !slices.Contains(found, column) {
			t.Errorf("there is no column %s", column)
		}
	}
	fillSecrets(t, db)
	stored := 0
	for _, s := range secretsOf(t, db) {
		stored++
		if !isSealed(s.stored) {
			t.Errorf("%s of %q is stored in plain", s.Column, s.Row)
		}
		sealed = slices.DeleteFunc(sealed, func(c string) bool { return c == s.Column })
	}
	if len(sealed) > 0 {
		t.Errorf("the test stores nothing in %v", sealed)
	}
	if readSecrets(t, db) != allSecrets {
		t.Errorf("read again: %s", readSecrets(t, db))
	}
}

func secretsOf(t *testing.T, db *DB) []Secret {
	t.Helper()
	found, err := db.Secrets(t.Context())
	must(t, err)
	return found
}

const allSecrets = "variable-secret certificate-secret acme-secret totp-secret channel-target channel-secret"

// fillSecrets stores a secret in every column of them.
func fillSecrets(t *testing.T, db *DB) {
	t.Helper()
	ana := mustAccount(t, db, "ana", 1024)
	mustApp(t, db, ana.ID, "bot", 100)
	must(t, db.Apps.ChangeVariables(t.Context(), "bot", func(set map[string]string) error { set["TOKEN"] = "variable-secret"; return nil }))
	must(t, db.Certificates.SaveCertificate(t.Context(), "ca", app.Certificate{Name: "a.example.org", Chain: []byte("chain"), Key: []byte("certificate-secret")}))
	_, err := db.Certificates.ACMEKey(t.Context(), "ca", []byte("acme-secret"))
	must(t, err)
	must(t, db.SignIns.OfferTOTP(t.Context(), ana.ID, []byte("totp-secret")))
	_, err = db.Notices.AddChannel(t.Context(), app.Channel{Account: ana.ID, Name: "ops", Service: app.Webhook, Target: "channel-target", Secrets: []string{"channel-secret"}}, 1)
	must(t, err)
	_, err = db.LinkKey(t.Context())
	must(t, err)
}

func readSecrets(t *testing.T, db *DB) string {
	t.Helper()
	variables, err := db.Apps.Variables(t.Context(), "bot")
	must(t, err)
	certificates, err := db.Certificates.Certificates(t.Context(), "ca")
	must(t, err)
	key, err := db.Certificates.ACMEKey(t.Context(), "ca", []byte("another"))
	must(t, err)
	seed := ""
	err = db.write(t.Context(), "look at the seed", func(t tx) error {
		return useTOTP(t, 1, false, func(is []byte) int64 { seed = string(is); return 0 })
	})
	wantKind(t, "no code", err, app.Unauthorized)
	channels, err := db.Notices.Channels(t.Context(), 1)
	must(t, err)
	return strings.Join([]string{variables[0].Value, string(certificates[0].Key), string(key), seed, channels[0].Target, channels[0].Secrets[0]}, " ")
}

// inFiles reports which of the secrets are in the files of a database.
func inFiles(t *testing.T, path string) (found []string) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	must(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		for _, secret := range strings.Fields(allSecrets) {
			if bytes.Contains(content, []byte(secret)) {
				found = append(found, filepath.Base(file)+": "+secret)
			}
		}
	}
	return found
}

// Secrets that were stored in plain leave no trace in the file and its log.
func TestSealLeavesNothingInPlain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	fillSecrets(t, db)
	links, err := db.LinkKey(t.Context())
	must(t, err)
	if len(inFiles(t, path)) < 4 {
		t.Fatal("the test does not find what is stored in plain")
	}
	all := keys{}
	db.UseKeys(all)
	if is, err := db.Seals(t.Context()); err != nil || is != (Seals{}) {
		t.Errorf("%+v, %v", is, err)
	}
	first := all.add(1)
	if lost := mustReseal(t, db, first); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	done, err := db.Scrub(t.Context())
	if err != nil || !done {
		t.Fatal(done, err)
	}
	if is, err := db.Seals(t.Context()); err != nil || is != (Seals{Key: first, Scrubbed: true}) {
		t.Errorf("%+v, %v", is, err)
	}
	if found := inFiles(t, path); found != nil {
		t.Errorf("in plain: %v", found)
	}
	if again, err := db.LinkKey(t.Context()); err != nil || !bytes.Equal(again, links) || readSecrets(t, db) != allSecrets {
		t.Errorf("what was sealed is read as %q (%v)", readSecrets(t, db), err)
	}
	before := secretsOf(t, db)
	second := all.add(2)
	mustReseal(t, db, second)
	for i, s := range secretsOf(t, db) {
		if bytes.Equal(s.stored, before[i].stored) || !isSealed(s.stored) {
			t.Errorf("%s is as it was", s.Column)
		}
	}
	delete(all, first)
	if readSecrets(t, db) != allSecrets {
		t.Error("the second key does not open what it sealed")
	}
}

// While the keys cannot be read, no secret is stored, and nothing takes the place of one.
func TestKeysThatCannotBeRead(t *testing.T) {
	for _, seals := range []bool{false, true} {
		db, _ := openTemp(t)
		all := &unread{keys: keys{}}
		db.UseKeys(all)
		key := all.add(1)
		if seals {
			mustReseal(t, db, key)
		}
		fillSecrets(t, db)
		links, err := db.LinkKey(t.Context())
		must(t, err)
		before := secretsOf(t, db)

		all.err = errors.New("damaged")
		for what, store := range map[string]func() error{
			"store the environment variables": func() error {
				return db.Apps.ChangeVariables(t.Context(), "bot", func(set map[string]string) error { set["TOKEN"] = "new"; return nil })
			},
			"store the certificate": func() error {
				return db.Certificates.SaveCertificate(t.Context(), "ca", app.Certificate{Name: "a.example.org", Key: []byte("new")})
			},
			"store the key of the ACME account": func() error {
				_, err := db.Certificates.ACMEKey(t.Context(), "other", []byte("new"))
				return err
			},
		} {
			err := store()
			wantKind(t, what, err, app.Unavailable)
			if err == nil || !strings.Contains(err.Error(), "cannot "+what+": "+app.KeyUnread) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for range 2 {
			if now, err := db.LinkKey(t.Context()); err != nil || len(now) != 32 || bytes.Equal(now, links) == seals {
				t.Errorf("sealed %v: links are signed with %x, before with %x; %v", seals, now, links, err)
			}
		}
		if after := secretsOf(t, db); !reflect.DeepEqual(after, before) {
			t.Errorf("sealed %v: the secrets are %v, before %v", seals, after, before)
		}

		all.err = nil
		if now, err := db.LinkKey(t.Context()); err != nil || !bytes.Equal(now, links) || readSecrets(t, db) != allSecrets {
			t.Errorf("sealed %v: then links are signed with %x, before with %x; %v", seals, now, links, err)
		}
	}
}

// Without its key a secret is named, and everything else is there. With it, it is again.
func TestLostKey(t *testing.T) {
	db, _ := openTemp(t)
	all := keys{}
	db.UseKeys(all)
	first := all.add(1)
	mustReseal(t, db, first)
	fillSecrets(t, db)
	kept := all[first]
	delete(all, first)

	lost, err := db.Lost(t.Context())
	must(t, err)
	if len(lost) != 7 {
		t.Errorf("lost %v", lost)
	}
	_, err = db.Apps.Variables(t.Context(), "bot")
	wantKind(t, "variables", err, app.Unavailable)
	if !strings.Contains(err.Error(), "the variables TOKEN cannot be read: the key that seals them is not on this host") {
		t.Error(err)
	}
	err = db.SignIns.ConfirmTOTP(t.Context(), 1, func([]byte) int64 { return 1 }, nil)
	wantKind(t, "a code", err, app.Unavailable)
	if c, err := db.Notices.Channels(t.Context(), 1); err != nil || c[0].Target != "" || !strings.Contains(c[0].Stopped, "enter it again") {
		t.Errorf("%+v, %v", c, err)
	}
	err = db.Apps.ChangeVariables(t.Context(), "bot", func(set map[string]string) error { set["MORE"] = "x"; return nil })
	if !errors.Is(err, ErrKeyMissing) {
		t.Errorf("stored, sealed with nothing: %v", err)
	}

	second := all.add(2)
	if lost := mustReseal(t, db, second); len(lost) != 7 {
		t.Errorf("lost %v", lost)
	}
	must(t, db.Apps.ChangeVariables(t.Context(), "bot", func(set map[string]string) error { set["MORE"] = "x"; return nil }))
	_, err = db.Apps.Variables(t.Context(), "bot")
	wantKind(t, "variables", err, app.Unavailable)
	certificates, err := db.Certificates.Certificates(t.Context(), "ca")
	must(t, err)
	if c := certificates[0]; c.Name != "a.example.org" || c.Key != nil || c.Chain != nil {
		t.Errorf("the certificate is %+v", c)
	}

	all[first] = kept
	if readSecrets(t, db) != "x certificate-secret acme-secret totp-secret channel-target channel-secret" { // MORE goes before TOKEN
		t.Errorf("put back: %s", readSecrets(t, db))
	}
	delete(all, first)
	must(t, db.Apps.ChangeVariables(t.Context(), "bot", func(set map[string]string) error { set["TOKEN"] = "new"; return nil }))
	if v, err := db.Apps.Variables(t.Context(), "bot"); err != nil || len(v) != 2 || v[1].Value != "new" {
		t.Errorf("%v, %v", len(v), err)
	}
	if key, err := db.Certificates.ACMEKey(t.Context(), "ca", []byte("another")); err != nil || string(key) != "another" {
		t.Errorf("%s, %v", key, err)
	}
	if _, err := db.LinkKey(t.Context()); err != nil {
		t.Error(err)
	}
	lost, err = db.Reseal(t.Context(), true, func() (string, error) { return second, nil })
	if err != nil || len(lost) != 4 || lost[0].Column != "certificate.key" {
		t.Errorf("lost %v, %v", lost, err)
	}
	if lost, err := db.Lost(t.Context()); err != nil || lost != nil {
		t.Errorf("lost %v, %v", lost, err)
	}
}

// A sealed value is for its row: one that was moved, or changed, is refused.
func TestSealIsOfItsRow(t *testing.T) {
	db, _ := openTemp(t)
	all := keys{}
	db.UseKeys(all)
	mustReseal(t, db, all.add(1))
	fillSecrets(t, db)
	for what, statement := range map[string]string{
		"of another row":    "UPDATE env SET name = 'OTHER'",
		"of another column": "UPDATE env SET value = (SELECT key FROM certificate)",
		"changed":           "UPDATE env SET value = CAST(value || 'x' AS BLOB)",
	} {
		t.Run(what, func(t *testing.T) {
			failed := errors.New("undone")
			err := db.write(t.Context(), "try", func(t2 tx) error {
				if err := t2.exec(statement); err != nil {
					return err
				}
				if _, _, err := variables(t2, "bot"); err == nil || !strings.Contains(err.Error(), "is damaged, or is that of another row") || strings.Contains(err.Error(), "secret-") {
					t.Errorf("read: %v", err)
				}
				return failed
			})
			if !errors.Is(err, failed) {
				t.Error(err)
			}
		})
	}
}

// Two that rotate at once do it one after the other; nothing is lost.
func TestResealAtOnce(t *testing.T) {
	db, _ := openTemp(t)
	all := keys{}
	db.UseKeys(all)
	mustReseal(t, db, all.add(1))
	fillSecrets(t, db)
	done := make(chan error, 4)
	for i := range byte(4) {
		go func() {
			_, err := db.Reseal(context.Background(), false, func() (string, error) { return all.add(10 + i), nil })
			done <- err
		}()
	}
	for range 4 {
		must(t, <-done)
	}
	if readSecrets(t, db) != allSecrets {
		t.Error("something is lost")
	}
}
