package settings

import "testing"

func TestExposure(t *testing.T) {
	const (
		private = "The API and the panel use HTTP without encryption at %: others in that private network can read tokens and passwords on the way."
		public  = "The API and the panel use HTTP without encryption at %: anyone on the way can read tokens and passwords."
	)
	for listen, want := range map[string]string{
		"127.0.0.1:8400": "", "127.8.0.1:80": "", "[::1]:8400": "", "localhost:8400": "", "[::ffff:127.0.0.1]:80": "",
		"192.168.1.5:8400": private, "10.0.0.1:80": private, "172.31.0.1:80": private, "[fd00::1]:80": private, "100.64.0.9:80": private, "169.254.1.1:80": private, "[fe80::1%eth0]:80": private,
		":8400": public, "0.0.0.0:8400": public, "[::]:8400": public, "203.0.113.7:80": public, "[2001:db8::7]:80": public, "172.32.0.1:80": public, "berth.example.org:80": public,
	} {
		got := mustLoad(t, "", nil, "--listen="+listen).Exposure()
		if want != "" {
			want = want[:len("The API and the panel use HTTP without encryption at ")] + listen + want[len("The API and the panel use HTTP without encryption at %"):]
		}
		if got.String() != want || got.IsZero() != (want == "") {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
	}
}
