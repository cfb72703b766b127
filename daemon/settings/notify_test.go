package settings

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"berth/web/channel"
)

func TestMailServer(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte("s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const home, from = "--base-url=https://berth.example.org", "--notify-smtp-from=berth@example.org"
	server := func(more ...string) []string {
		return append([]string{home, from, "--notify-smtp=mail.example.org:587"}, more...)
	}
	for _, c := range []struct {
		args []string
		want channel.Mail
	}{
		{nil, channel.Mail{}},
		{[]string{"--notify-smtp-user=berth", "--notify-smtp-tls=none"}, channel.Mail{}},
		{server(), channel.Mail{Server: "mail.example.org:587", From: "berth@example.org", TLS: channel.MailStartTLS}},
		{
			server("--notify-smtp-user=berth", "--notify-smtp-password="+secret, "--notify-smtp-tls=tls"),
			channel.Mail{Server: "mail.example.org:587", User: "berth", Password: "s3cret", From: "berth@example.org", TLS: channel.MailTLS},
		},
		{server("--notify-smtp=127.0.0.1:25", "--notify-smtp-tls=none"), channel.Mail{Server: "127.0.0.1:25", From: "berth@example.org", TLS: channel.MailPlain}},
		{server("--notify-smtp=[::ffff:127.0.0.1]:25", "--notify-smtp-tls=none"), channel.Mail{Server: "[::ffff:127.0.0.1]:25", From: "berth@example.org", TLS: channel.MailPlain}},
		{server("--notify-smtp=localhost:25", "--notify-smtp-tls=none"), channel.Mail{Server: "localhost:25", From: "berth@example.org", TLS: channel.MailPlain}},
	} {
		if m, err := mustLoad(t, "", nil, c.args...).MailServer(); m != c.want || err != nil {
			t.Errorf("%q: %+v, %v", c.args, m, err)
		}
	}
	for says, args := range map[string][]string{
		"cannot use notify.smtp: notify.smtp_from, the address that berth writes from, is not set":                                                             {home, "--notify-smtp=mail.example.org:587"},
		"cannot use notify.smtp: base_url is not set, to which the links in mail lead":                                                                         {from, "--notify-smtp=mail.example.org:587"},
		`cannot use notify.smtp_tls "none" with mail.example.org:587: others can read mail on the way; use "starttls" or "tls", or a mail server at 127.0.0.1`: server("--notify-smtp-tls=none"),
		"cannot use notify.smtp_password: notify.smtp_user is not set":                                                                                         server("--notify-smtp-password=" + secret),
		"cannot use notify.smtp_password: it is not set":                                                                                                       server("--notify-smtp-user=berth"),
		"cannot use notify.smtp_password: others may read " + open + "; forbid it (chmod 600 " + open + ")":                                                    server("--notify-smtp-user=berth", "--notify-smtp-password="+open),
	} {
		if m, err := mustLoad(t, "", nil, args...).MailServer(); m != (channel.Mail{}) || err == nil || err.Error() != says {
			t.Errorf("%q: %+v, %v, want %s", args, m, err, says)
		}
	}
}

func TestNotifyAllowed(t *testing.T) {
	if all := mustLoad(t, "", nil).NotifyAllowed(); all != nil {
		t.Errorf("allowed without the setting: %v", all)
	}
	all := mustLoad(t, "", nil, "--notify-allow=127.0.0.1:8080, [::ffff:10.0.0.1]:80,[fd00::1]:443").NotifyAllowed()
	want := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("[fd00::1]:443")}
	if !slices.Equal(all, want) {
		t.Errorf("got %v", all)
	}
}
