package domain

import (
	"strings"
	"testing"

	"berth/app"
)

func TestCheckSubdomain(t *testing.T) {
	for _, name := range []string{"ab", "a1", "1a", "my-site2", "a--b", "shop", strings.Repeat("a", 20), "apis", "x-n--a", "1-a"} {
		if err := CheckSubdomain(name); err != nil || !app.ValidID(name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "a", "-ab", "ab-", "a_b", "a.b", "Ab", "é2", "a b", "ab\n", "a\x00b", "12", "1745338954955", "1-2", strings.Repeat("a", 21),
		"xn--80ak6aa92e", "xn--a", "ab--c", "all", "www", "api", "admin", "mail", "create", "autodiscover", "wpad",
	} {
		if err := CheckSubdomain(name); err == nil || app.KindOf(err) != app.Invalid {
			t.Errorf("%q: got %v, want Invalid", name, err)
		}
	}
}

func TestReservedNamesWouldOtherwiseBeGood(t *testing.T) {
	for _, name := range reserved {
		if err := CheckSubdomain(name); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%q: %v, want that it is reserved", name, err)
		}
	}
}

func TestCheckDomain(t *testing.T) {
	own := []string{"apps.example.org", "host.example.net"}
	long := strings.Repeat(strings.Repeat("a", 61)+".", 4)[:maxDomain-4] + ".org"
	for text, want := range map[string]string{
		"example.org": "example.org", "Shop.Example.ORG": "shop.example.org", "example.org.": "example.org", " example.org\n": "example.org",
		"a.b": "a.b", "1.example.org": "1.example.org", "xn--bcher-kva.example": "xn--bcher-kva.example", "myapps.example.org": "myapps.example.org",
		"example.net": "example.net", strings.Repeat("a", 63) + ".org": strings.Repeat("a", 63) + ".org", long: long,
	} {
		if got, err := CheckDomain(text, own); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"": "name the domain", ".": "name the domain", "example": "needs a dot", "localhost": "needs a dot", "all": "needs a dot",
		"bücher.example": "xn--", "例え.jp": "xn--", "a..b": "between its dots", ".a.b": "between its dots", "a.b..": "between its dots",
		"-a.example": "between its dots", "a-.example": "between its dots", "a_b.example": "between its dots", "*.example.org": "between its dots",
		"https://example.org": "between its dots", "example.org/x": "between its dots", "example.org:80": "between its dots",
		"a b.example": "between its dots", "a.b\x00": "between its dots", strings.Repeat("a", 64) + ".org": "between its dots",
		"192.0.2.1": "an IP address", "[2001:db8::1]": "an IP address", "2001:db8::1": "an IP address", "1.2.3": "must not be a number",
		"0x7f.1": "must not be a number", "apps.example.org": "host's own", "a.APPS.example.org.": "host's own", "x.y.host.example.net": "host's own",
		"a" + long: "longer", strings.Repeat("a.", 500) + "b": "longer",
	} {
		got, err := CheckDomain(text, own)
		if got != "" || app.KindOf(err) != app.Invalid || err == nil || !strings.Contains(err.Error(), why) || len(err.Error()) > 300 {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, why)
		}
	}
}

// What is taken is a name that the DNS can have, and taking it again changes
// nothing.
func FuzzCheckDomain(f *testing.F) {
	for _, seed := range []string{"example.org", "A.b.", "xn--a.b", "1.2.3.4", "é.b", "-.a", "a..b", "x.own.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := CheckDomain(text, []string{"own.example"})
		if err != nil {
			if app.KindOf(err) != app.Invalid || len(err.Error()) > 600 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := CheckDomain(name, nil)
		if err != nil || again != name || len(prefix+name) > 253 || strings.ContainsAny(name, "/:@ \"*_") || strings.HasSuffix(name, ".own.example") {
			t.Errorf("%q became %q, %q, %v", text, name, again, err)
		}
	})
}
