package web

import "testing"

// A page that came in plain, into which anybody on the way can write, is of another origin than one that came encrypted.
func TestSameOrigin(t *testing.T) {
	for origin, want := range map[string][2]bool{ // of a call in plain, and of an encrypted one
		"":                       {true, true},
		"https://example.com":    {true, true},
		"http://EXAMPLE.com":     {true, false},
		"https://base.example":   {true, true},
		"http://base.example":    {true, false},
		"https://evil.example":   {false, false},
		"https://example.com:81": {false, false},
		"null":                   {false, false},
	} {
		for i, encrypted := range []bool{false, true} {
			if got := SameOrigin(origin, "example.com", "https://base.example", encrypted); got != want[i] {
				t.Errorf("%q, encrypted %t: %t", origin, encrypted, got)
			}
		}
	}
}
