package runtimes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// Lacks knows packages by their names with "deb:" before them; "dpkg" is what
// makes a Debian host of it.
func (t tools) Lacks(packages []string) (missing []string, known bool) {
	_, known = t["dpkg"]
	for _, name := range packages {
		if _, has := t["deb:"+name]; !has || !known {
			missing = append(missing, name)
		}
	}
	return missing, known
}

func TestWish(t *testing.T) {
	all := strings.Fields("deb:libgl1 deb:libglib2.0-0 deb:ffmpeg deb:build-essential")
	for _, tt := range []struct {
		list    string
		host    tools
		names   string
		lacking string
		unknown bool
	}{
		{"ffmpeg", host("dpkg"), "ffmpeg", "ffmpeg", false},
		{"ffmpeg", host("dpkg", "deb:ffmpeg"), "ffmpeg", "", false},
		{"ffmpeg", host("dpkg", "ffmpeg", "ffprobe"), "ffmpeg", "", false}, // by hand, in /usr/local/bin
		{"ffmpeg", host("dpkg", "ffmpeg"), "ffmpeg", "ffmpeg", false},
		{" FFmpeg |Tools|ffmpeg", host("dpkg", "git", "zip"), "ffmpeg tools", "curl ffmpeg git unzip wget zip", false},
		{"java", debian.with("dpkg", ""), "java", "", false},
		{"libgl|opencv", host(append(all, "dpkg")...), "libgl opencv", "libopencv-dev", false},
		{"canvas", host(append(all, "dpkg")...), "canvas", "libcairo2-dev libgif-dev libjpeg-dev libpango1.0-dev librsvg2-dev", false},
		{"puppeteer|selenium", host("dpkg"), "puppeteer selenium", "chromium chromium-driver", false},
		{"g++|libstdc++6|0ad|node-ws", host("dpkg", "deb:g++"), "g++ libstdc++6 0ad node-ws", "0ad libstdc++6 node-ws", false},
		{"ffmpeg|htop", host(), "ffmpeg htop", "ffmpeg htop", true},
	} {
		got, err := Wish(strings.Split(tt.list, "|"), tt.host)
		if err != nil {
			t.Errorf("%s: %v", tt.list, err)
		}
		equal(t, tt.list, got, app.Wishes{Names: strings.Fields(tt.names), Lacking: slices.Clip(fields(tt.lacking)), Unknown: tt.unknown})
	}
}

// fields is nil for nothing.
func fields(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Fields(s)
}

func TestWishRefuses(t *testing.T) {
	var many []string
	for i := range maxWishes + 1 {
		many = append(many, fmt.Sprintf("lib%d", i))
	}
	if _, err := Wish(many[:maxWishes], host()); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		list []string
		says string
	}{
		{nil, "name at least one system package"},
		{[]string{"ffmpeg", ""}, `"" is not the name of a system package`},
		{[]string{"x"}, `"x" is not the name of a system package: at least two of a-z, 0-9, +, - and ., as in ffmpeg`},
		{[]string{"ffmpeg; reboot"}, "is not the name of a system package"},
		{[]string{"-y"}, "is not the name of a system package"},
		{[]string{"../x"}, "is not the name of a system package"},
		{[]string{"naïve"}, "is not the name of a system package"},
		{[]string{"a=1.0"}, "is not the name of a system package"},
		{[]string{strings.Repeat("x", 5000)}, "is not the name of a system package"},
		{many, "an application may ask for 64 system packages, not for 65"},
	} {
		_, err := Wish(tt.list, host())
		if app.KindOf(err) != app.Invalid || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 300 {
			t.Errorf("%.80q: %v, want %q", tt.list, err, tt.says)
		}
	}
}

// The command that people are told to copy is one that apt-get takes.
func TestGroups(t *testing.T) {
	for name, g := range groups {
		if !packageName(name) || len(g.packages) == 0 || !slices.IsSorted(g.packages) {
			t.Errorf("the group %s is %v", name, g)
		}
		for _, p := range g.packages {
			if !packageName(p) {
				t.Errorf("%s names %q", name, p)
			}
		}
	}
	for _, name := range strings.Fields("canvas ffmpeg java libgl openssl puppeteer tools mysql selenium tesseract unixodbc") {
		if len(groups[name].packages) == 0 {
			t.Errorf("clients offer %s", name)
		}
	}
}

func TestAptOfAConfig(t *testing.T) {
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprintf("lib%d", i)
	}
	for _, tt := range []struct {
		apt   []string
		host  tools
		apts  string
		notes []string
	}{
		{nil, fullHost, "", nil},
		{[]string{"ffmpeg"}, fullHost.with("dpkg", "").with("deb:ffmpeg", ""), "ffmpeg", nil},
		{
			[]string{"Canvas", "ffmpeg", "ffmpeg"},
			fullHost, "canvas ffmpeg",
			[]string{"APT=canvas,ffmpeg was asked for; berth installs no system packages: ask the owner of this host for them."},
		},
		{
			[]string{"ffmpeg", "tools"},
			fullHost.with("dpkg", "").with("deb:git", "").with("deb:curl", "").with("deb:zip", ""), "ffmpeg tools",
			[]string{"APT=ffmpeg,tools was asked for, and this host lacks ffmpeg, unzip, wget; berth installs no system packages: " +
				"the owner of this host can, with: apt-get install ffmpeg unzip wget"},
		},
		{
			[]string{"some thing", "libgl1"},
			fullHost.with("dpkg", "").with("deb:libgl1", ""), "libgl1",
			[]string{`APT names "some thing", which is not the name of a system package.`},
		},
		{[]string{"$"}, fullHost, "", []string{`APT names "$", which is not the name of a system package.`}},
		{
			many, fullHost, strings.Join(many[:64], " "),
			[]string{
				"APT names more than 64 system packages; those after lib63 are left out.",
				"APT=" + strings.Join(many[:64], ",") + " was asked for; berth installs no system packages: ask the owner of this host for them.",
			},
		},
	} {
		got, err := Plan(app.Config{Main: "a.js", APT: tt.apt}, true, tree{"a.js": ""}, tt.host, "")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "notes", got.Notes, tt.notes)
		equal(t, "apts", got.Apts, fields(tt.apts))
	}
}
