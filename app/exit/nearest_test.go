package exit

import "testing"

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"a", ""}: 1, {"", "ab"}: 2, {"abc", "abc"}: 0, {"abc", "acb"}: 1, {"abc", "abd"}: 1,
		{"ram_mni", "ram_min"}: 1, {"kitten", "sitting"}: 3, {"ab", "ba"}: 1,
	} {
		if got := distance(pair[0], pair[1]); got != want {
			t.Errorf("%q: %d, want %d", pair, got, want)
		}
		if got := distance(pair[1], pair[0]); got != want {
			t.Errorf("%q the other way: %d, want %d", pair, got, want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"account create", "account list", "ram_min"}
	for name, want := range map[string]string{"create": "account create", "ram_mni": "ram_min", "xyzzy": ""} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := DidYouMean("ram_mni", known, "--%s"); got != "; did you mean --ram_min?" {
		t.Errorf("got %q", got)
	}
}
