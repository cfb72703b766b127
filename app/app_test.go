package app

import (
	"errors"
	"fmt"
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
		{&Error{Kind: Exhausted, Message: "no room", Err: cause}, Exhausted, "no room: disk on fire"},
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
