package settings

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"berth/web/provider"
)

func TestProviders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	secret := write("secret", " s3cret\n", 0o600)
	roots := write("roots", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o644)
	load := func(args ...string) ([]provider.Config, error) {
		return mustLoad(t, "", nil, append([]string{"--base-url=https://berth.example.org"}, args...)...).Providers()
	}
	discord := []string{"--sign-in-discord-client=123", "--sign-in-discord-secret=" + secret}
	openID := []string{
		"--sign-in-openid-issuer=https://id.example.org/", "--sign-in-openid-client=berth", "--sign-in-openid-secret=" + secret,
		"--sign-in-openid-name=Example", "--sign-in-openid-roots=" + roots,
	}
	if all, err := load(); all != nil || err != nil {
		t.Errorf("none: %+v, %v", all, err)
	}
	all, err := load(append(discord, openID...)...)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if c := all[0]; c.Name != "discord" || c.Title != "Discord" || c.Issuer != provider.Discord || c.Client != "123" || c.Secret != "s3cret" {
		t.Errorf("%+v", c)
	}
	if c := all[1]; c.Name != "openid" || c.Title != "Example" || c.Issuer != "https://id.example.org/" || c.Client != "berth" || c.Secret != "s3cret" || c.Roots == nil {
		t.Errorf("%+v", c)
	}
	open := write("open", "s3cret", 0o644)
	for says, args := range map[string][]string{
		"cannot use sign_in.discord_secret: it is not set":                                                                discord[:1],
		"cannot read sign_in.discord_secret: stat " + dir + "/none: no such file or directory":                            {discord[0], "--sign-in-discord-secret=" + dir + "/none"},
		"cannot use sign_in.discord_secret: others may read " + open + "; forbid it (chmod 600 " + open + ")":             {discord[0], "--sign-in-discord-secret=" + open},
		"cannot use sign_in.discord_secret: " + dir + "/empty must hold the secret, on one line":                          {discord[0], "--sign-in-discord-secret=" + write("empty", "\n", 0o600)},
		"cannot use sign_in.discord_secret: " + dir + "/two must hold the secret, on one line":                            {discord[0], "--sign-in-discord-secret=" + write("two", "a\nb\n", 0o600)},
		"cannot use sign_in.openid_issuer: sign_in.openid_client is not set":                                              openID[:1],
		"cannot use sign_in.openid_secret: it is not set":                                                                 openID[:2],
		"cannot use sign_in.openid_roots: there is no certificate in " + secret:                                           append(openID[:3:3], "--sign-in-openid-roots="+secret),
		"cannot let people sign in with Discord: it leads back to base_url, which must be the https address of the panel": append(discord, "--base-url=http://192.0.2.1:8400"),
	} {
		if all, err := load(args...); all != nil || err == nil || err.Error() != says {
			t.Errorf("%q: %+v, %v, want %s", args, all, err, says)
		}
	}
	for _, bad := range []string{"http://id.example.org", "id.example.org", "https://a:b@id.example.org", "https://id.example.org?x", "javascript:alert(1)"} {
		if _, err := loadFrom(t, "", nil, "--sign-in-openid-issuer="+bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
