package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"ab": true, "my-site2": true, "1745338954955": true, strings.Repeat("a", 63): true,
		"": false, "a": false, "all": false, "-ab": false, "ab-": false, "a_b": false, "a.b": false, "..": false,
		"a/b": false, "Ab": false, "é2": false, "a b": false, "a\x00b": false, strings.Repeat("a", 64): false,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("ValidID(%q) = %t, want %t", id, got, want)
		}
	}
}

func FuzzValidID(f *testing.F) {
	for _, seed := range []string{"ab", "../x", "all", "a\n", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if ValidID(id) && (strings.ContainsAny(id, "/.\\ \x00\n") || id == "all" || len(id) > 63) {
			t.Errorf("%q is valid", id)
		}
	})
}

func TestKindOf(t *testing.T) {
	cause := errors.New("disk on fire")
	user := Errorf(Conflict, "the name %q is taken", "x")
	for _, tt := range []struct {
		err  error
		kind Kind
		text string
	}{
		{nil, Internal, ""},
		{cause, Internal, "disk on fire"},
		{user, Conflict, `the name "x" is taken`},
		{fmt.Errorf("cannot deploy: %w", user), Conflict, `cannot deploy: the name "x" is taken`},
		{&Error{Kind: Exhausted, Message: Words("no room"), Err: cause}, Exhausted, "no room: disk on fire"},
	} {
		if got := KindOf(tt.err); got != tt.kind {
			t.Errorf("KindOf(%v) = %d, want %d", tt.err, got, tt.kind)
		}
		if tt.err != nil && tt.err.Error() != tt.text {
			t.Errorf("got %q, want %q", tt.err, tt.text)
		}
	}
	if !errors.Is(&Error{Err: cause}, cause) {
		t.Error("the cause cannot be found")
	}
}

func TestSnapshotTellsTheLastExit(t *testing.T) {
	var s Snapshot
	if s.RAMKilled() || s.ExitCode() != 0 {
		t.Errorf("never ended: %t %d", s.RAMKilled(), s.ExitCode())
	}
	s.LastExit = &Exit{Code: 137, OOM: true}
	if !s.RAMKilled() || s.ExitCode() != 137 {
		t.Errorf("killed: %t %d", s.RAMKilled(), s.ExitCode())
	}
}

func TestConfigHas(t *testing.T) {
	c := Config{Keys: []string{"MAIN"}}
	if !c.Has("MAIN") || c.Has("RAM") {
		t.Errorf("%+v", c)
	}
}

func TestWords(t *testing.T) {
	if Bot.String() != "bot" || Site.String() != "site" || MB(5).String() != "5" || MB(5).Bytes() != 5<<20 || AccountID(7).String() != "7" {
		t.Error("a word or number of the vocabulary is wrong")
	}
}

func TestText(t *testing.T) {
	cause := Errorf(Unusable, "an application needs at least %d MB", 32)
	said := Textf("%s: %v", Words("100%"), cause)
	if got := said.String(); got != "100%: an application needs at least 32 MB" {
		t.Errorf("got %q", got)
	}
	if format, args := said.Phrase(); format != "%s: %v" || len(args) != 2 || args[1] != any(cause) {
		t.Errorf("it is made of %q, %v", format, args)
	}
	if format, args := Words("100%").Phrase(); format != "100%%" || args != nil {
		t.Errorf("words are %q, %v", format, args)
	}
	if said.IsZero() || !(Text{}).IsZero() || (Text{}).String() != "" {
		t.Error("only no sentence is none")
	}
	for _, printed := range []string{fmt.Sprint(said), fmt.Sprintf("%v", &said)} {
		if printed != said.String() {
			t.Errorf("it prints %q", printed)
		}
	}
	if b, err := json.Marshal(struct{ Message Text }{said}); err != nil || string(b) != `{"Message":"`+said.String()+`"}` {
		t.Errorf("as JSON it is %s, %v", b, err)
	}
}

// What an error says in another language has the same parts as in English.
func TestErrorIsAPhrase(t *testing.T) {
	bare := &Error{Kind: Invalid, Message: Textf("the name %q is taken", "x")}
	if format, args := bare.Phrase(); format != "the name %q is taken" || len(args) != 1 {
		t.Errorf("it is %q, %v", format, args)
	}
	format, args := (&Error{Message: bare.Message, Err: errors.New("cause")}).Phrase()
	if got := fmt.Sprintf(format, args...); got != `the name "x" is taken: cause` {
		t.Errorf("with its cause it is %q", got)
	}
}

func TestParseMB(t *testing.T) {
	for text, want := range map[string]MB{
		"0": 0, "512": 512, "512MB": 512, "512m": 512, "512 MiB": 512, "2GB": 2048, "1.5GB": 1536, "1.1g": 1126, "0.5mb": 0, "1TB": 1 << 20,
		"": -1, "MB": -1, "-1": -1, "+1": -1, "1.5": -1, ".5GB": -1, "1e3": -1, "60 ": -1, "512KB": -1, "5B": -1, "1  GB": -1, "1GBs": -1,
		"4194304TB": 1 << 42, "4194305TB": -1, "8796093022208": -1, "99999999999999999999": -1,
	} {
		got, ok := ParseMB(text)
		if !ok {
			got = -1
		}
		if got != want || got.Bytes() < 0 && ok {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestReachable(t *testing.T) {
	site := Snapshot{App: App{Type: Site}, Running: true}
	at, silent, static, stopped, unwell := site, site, site, site, site
	unwell.Reach, unwell.Unwell = netip.MustParseAddrPort("127.0.0.1:20000"), true
	at.Reach, silent.Silent, static.Code.Lang, stopped.Running = netip.MustParseAddrPort("127.0.0.1:20000"), true, StaticLang, false
	for want, all := range map[Reachable][]Snapshot{
		"": {{Running: true}, {}}, SiteStarting: {site}, SiteReached: {at, static}, SiteSilent: {silent}, SiteUnwell: {unwell}, SiteOffline: {stopped},
	} {
		for _, s := range all {
			if got := s.Reachable(); got != want {
				t.Errorf("%+v: %q, want %q", s, got, want)
			}
		}
	}
}
