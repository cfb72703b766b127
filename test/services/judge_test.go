package services_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/test/services"
	"berth/web/channel"
	"berth/web/egress"
)

// The library that most receivers use, that of Node.js, takes what berth signs, with each of two secrets, and nothing
// else. That of Go judges in the stub itself.
func TestNodeJudgesSignatures(t *testing.T) {
	out, err := exec.Command("../scripts/standardwebhooks").Output()
	if err != nil {
		t.Skipf("cannot fetch the library: %v", err)
	}
	stub := services.New(t)
	allow := []netip.AddrPort{netip.MustParseAddrPort(stub.Listener.Addr().String())}
	s := channel.New(channel.Options{Client: egress.New(egress.Options{Allow: allow, Roots: stub.Roots})})
	const older, other = "whsec_b2xkZXIgb2xkZXIgb2xkZXIgb2xkZXIgb2xkZXI=", "whsec_b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI="
	c := app.Channel{Owner: true, Service: app.Webhook, Target: stub.Webhook, Secrets: []string{services.WebhookSecret, older}}
	m := app.Message{ID: "msg_1", At: time.Now(), Kind: app.NoticeCrashed, Severity: app.Failure, Title: "é 🔴 <&>\u2028", Lines: []string{`"quoted"`}, Count: 1}
	if r := s.Send(t.Context(), c, m); r.Why != nil {
		t.Fatal(r.Why)
	}
	got := stub.Messages()[0]
	judge := func(secret string, headers http.Header, body string) string {
		t.Helper()
		flat := map[string]string{}
		for name := range headers {
			flat[strings.ToLower(name)] = headers.Get(name)
		}
		question, err := json.Marshal(map[string]any{"secret": secret, "headers": flat, "body": body})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("node", "judge.cjs")
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(strings.TrimSpace(string(out)), "node_modules"))
		cmd.Stdin = strings.NewReader(string(question))
		answer, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		return strings.TrimSpace(string(answer))
	}
	for _, secret := range c.Secrets {
		if said := judge(secret, got.Header, string(got.Body)); said != "verified crashed" {
			t.Errorf("with %s: %s", secret, said)
		}
	}
	if said := judge(other, got.Header, string(got.Body)); said != "refused No matching signature found" {
		t.Errorf("with another secret: %s", said)
	}
	if said := judge(older, got.Header, string(got.Body)+" "); said != "refused No matching signature found" {
		t.Errorf("with another body: %s", said)
	}
	late := got.Header.Clone()
	late.Set("webhook-timestamp", "1700000000")
	if said := judge(older, late, string(got.Body)); said != "refused Message timestamp too old" {
		t.Errorf("with another time: %s", said)
	}
}
