package runtimes

import "testing"

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		ranges, version string
		want            fit
	}{
		// as in VERSION
		{"20", "20.20.2", fits},
		{"v20", "20.20.2", fits},
		{"20.x", "20.20.2", fits},
		{"20.x.x", "20.20.2", fits},
		{"20.20.X", "20.20.2", fits},
		{"20.*", "20.20.2", fits},
		{"*", "20.20.2", fits},
		{"x", "20.20.2", fits},
		{"20.20.2", "20.20.2", fits},
		{"20.20.3", "20.20.2", older},
		{"2", "20.20.2", newer},
		{"16", "20.20.2", newer},
		{"22", "20.20.2", older},
		{"3.11", "3.11.2", fits},
		{"3.1", "3.11.2", newer},
		// npm
		{">=18", "20.20.2", fits},
		{">= 18", "20.20.2", fits},
		{">=18 <21", "20.20.2", fits},
		{">=18 <20", "20.20.2", newer},
		{">20", "20.20.2", older},
		{">20.1", "20.20.2", fits},
		{"<=20", "20.20.2", fits},
		{"<20.20.2", "20.20.2", newer},
		{"^20.1", "20.20.2", fits},
		{"^20.21", "20.20.2", older},
		{"^18", "20.20.2", newer},
		{"^0.2.3", "0.2.9", fits},
		{"^0.2.3", "0.3.0", newer},
		{"^0", "0.9.0", fits},
		{"^0.0", "0.0.9", fits},
		{"~20.20", "20.20.2", fits},
		{"~20.19.1", "20.20.2", newer},
		{"~20", "20.20.2", fits},
		{"^18 || ^20", "20.20.2", fits},
		{"^18 || ^22", "20.20.2", newer},
		{">=22 || ^21", "20.20.2", older},
		{"18 - 20", "20.20.2", unclear},
		// pip
		{">=3.9,<4", "3.11.2", fits},
		{"~=3.9", "3.11.2", fits},
		{"~=3.9.1", "3.11.2", newer},
		{"==3.11.*", "3.11.2", fits},
		{">=3.8, !=3.9.*", "3.9.2", newer},
		{">=3.8, !=3.9.*", "3.11.2", fits},
		{">=3.12,<4", "3.11.2", older},
		{"<4,>=3.12", "3.11.2", older},
		// bundler
		{"~> 3.1", "3.4.0", fits},
		{"~> 3.1.2", "3.2.0", newer},
		{"~> 3", "3.1.2", fits},
		// what nobody can tell is refused to nobody
		{"lts/*", "20.20.2", unclear},
		{"lts/iron", "20.20.2", unclear},
		{"legacy", "20.20.2", unclear},
		{"", "20.20.2", unclear},
		{">=20.0.0-rc.1", "20.20.2", unclear},
		{"||", "20.20.2", unclear},
		{"20 or 22", "20.20.2", unclear},
		{">=99999999999999999999", "20.20.2", unclear},
		{">=22", "", unclear},
		{">=22", "unknown", unclear},
		// lengths
		{">=1.21", "1.21", fits},
		{">=1.21.0", "1.21", fits},
		{">=1.21.1", "1.21", older},
	} {
		if got := judge(c.ranges, parseVersion(c.version)); got != c.want {
			t.Errorf("judge(%q, %q) = %d, want %d", c.ranges, c.version, got, c.want)
		}
	}
}

// No text makes it panic, and what fits is not refused by a space more.
func FuzzJudge(f *testing.F) {
	for _, seed := range []string{">=18 <21 || ^22", "~> 3.1", "x", "^0.0.0", "!=", "20.x.x"} {
		f.Add(seed, "20.1")
	}
	f.Fuzz(func(t *testing.T, ranges, v string) {
		if got, spaced := judge(ranges, parseVersion(v)), judge(" "+ranges+" ", parseVersion(v)); got != spaced {
			t.Errorf("judge(%q, %q) is %d, with spaces %d", ranges, v, got, spaced)
		}
	})
}
