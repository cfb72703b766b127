package bundle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/app"
)

// text returns the message a user would read.
func text(err error) string {
	var e *app.Error
	if errors.As(err, &e) {
		return e.Message.String()
	}
	return ""
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	ok := rawZIP(t, raw{name: "a.js", data: strings.Repeat("hello", 100)})
	small := Limits{MaxEntries: 3, MaxUnpacked: 1000, MaxDepth: 3}
	tests := []struct {
		name string
		zip  []byte
		lim  Limits
		kind app.Kind
		want string
	}{
		{"empty file", nil, Limits{}, app.Unusable, "cannot unpack the ZIP: the file is empty"},
		{"not a ZIP", []byte("<html>hello</html>"), Limits{}, app.Unusable, "cannot unpack the ZIP: the file is not a ZIP: put the files of the application into one"},
		{"truncated", ok[:len(ok)-30], Limits{}, app.Unusable, "cannot unpack the ZIP: it is truncated or damaged"},
		{"only a magic number", []byte("PK\x03\x04"), Limits{}, app.Unusable, "cannot unpack the ZIP: it is truncated or damaged"},
		{"no entries", rawZIP(t), Limits{}, app.Unusable, "cannot unpack the ZIP: it holds no files"},
		{"only directories", rawZIP(t, raw{name: "a/"}), Limits{}, app.Unusable, "cannot unpack the ZIP: it holds no files"},
		{
			"only rubbish", rawZIP(t, raw{name: "__MACOSX/a"}, raw{name: "x/.DS_Store"}),
			Limits{},
			app.Unusable,
			"cannot unpack the ZIP: it holds no files",
		},
		{"encrypted", rawZIP(t, raw{name: "a", flags: 1}), Limits{}, app.Unusable, `entry "a" is encrypted`},
		{"strongly encrypted", rawZIP(t, raw{name: "a", flags: 1 << 6}), Limits{}, app.Unusable, `entry "a" is encrypted`},
		{
			"method 99", rawZIP(t, raw{name: "a", method: 99}),
			Limits{},
			app.Unusable,
			`entry "a" is compressed with the method 99; only stored and deflated are supported: pack the ZIP again, with the method Deflate`,
		},
		{
			"method 9", rawZIP(t, raw{name: "a", method: 9}),
			Limits{},
			app.Unusable,
			`entry "a" is compressed with Deflate64; only stored and deflated are supported: pack the ZIP again, with the method Deflate`,
		},
		{
			"climbs", rawZIP(t, raw{name: "../x"}),
			Limits{},
			app.Unusable,
			`cannot unpack the ZIP: entry "../x" climbs out of the archive`,
		},
		{"climbs inside", rawZIP(t, raw{name: "a/../../x"}), Limits{}, app.Unusable, `climbs out of the archive`},
		{"absolute", rawZIP(t, raw{name: "/etc/passwd"}), Limits{}, app.Unusable, `entry "/etc/passwd" has an absolute name`},
		{"drive", rawZIP(t, raw{name: "C:/x"}), Limits{}, app.Unusable, `entry "C:/x" has an absolute name`},
		{"backslash", rawZIP(t, raw{name: `a\b`, creator: unix}), Limits{}, app.Unusable, `entry "a\\b" has a backslash in its name`},
		{"NUL", rawZIP(t, raw{name: "a\x00b"}), Limits{}, app.Unusable, `entry "a\x00b" has a control character in its name`},
		{"newline", rawZIP(t, raw{name: "a\nb"}), Limits{}, app.Unusable, `entry "a\nb" has a control character in its name`},
		{
			"bad UTF-8", rawZIP(t, raw{name: "a\xff", flags: 1 << 11}),
			Limits{},
			app.Unusable,
			`entry "a\xff" has a name that is not valid UTF-8 although it says so`,
		},
		{"no name", rawZIP(t, raw{name: ""}), Limits{}, app.Unusable, `entry "" has no name`},
		{
			"symlink", rawZIP(t, raw{name: "a", data: "/etc", creator: unix, attrs: mode(0o120777)}),
			Limits{},
			app.Unusable,
			`entry "a" is a symbolic link`,
		},
		{"symlink from FAT", rawZIP(t, raw{name: "a", data: "/etc", attrs: mode(0o120777)}), Limits{}, app.Unusable, `is a symbolic link`},
		{"block device", rawZIP(t, raw{name: "a", creator: unix, attrs: mode(0o060600)}), Limits{}, app.Unusable, `entry "a" is a device`},
		{"char device", rawZIP(t, raw{name: "a", creator: unix, attrs: mode(0o020600)}), Limits{}, app.Unusable, `entry "a" is a device`},
		{"fifo", rawZIP(t, raw{name: "a", creator: unix, attrs: mode(0o010600)}), Limits{}, app.Unusable, `entry "a" is a named pipe`},
		{"socket", rawZIP(t, raw{name: "a", creator: unix, attrs: mode(0o140600)}), Limits{}, app.Unusable, `entry "a" is a socket`},
		{
			"unknown type", rawZIP(t, raw{name: "a", creator: unix, attrs: mode(0o030600)}),
			Limits{},
			app.Unusable,
			`entry "a" is neither a file nor a directory`,
		},
		{"directory with content", rawZIP(t, raw{name: "a/", data: "x"}), Limits{}, app.Unusable, `entry "a/" is a directory with content`},
		{"duplicate", rawZIP(t, raw{name: "a"}, raw{name: "a"}), Limits{}, app.Unusable, `entry "a" occurs more than once`},
		{"duplicate by //", rawZIP(t, raw{name: "a/b"}, raw{name: "a//b"}), Limits{}, app.Unusable, `entry "a//b" occurs more than once`},
		{"duplicate by ./", rawZIP(t, raw{name: "a"}, raw{name: "./a"}), Limits{}, app.Unusable, `entry "./a" occurs more than once`},
		{"file then directory", rawZIP(t, raw{name: "a"}, raw{name: "a/b"}), Limits{}, app.Unusable, `entry "a/b" lies below "a", which is a file`},
		{"directory then file", rawZIP(t, raw{name: "a/b"}, raw{name: "a"}), Limits{}, app.Unusable, `entry "a" is a file and a directory at once`},
		{
			"too many", rawZIP(t, raw{name: "a"}, raw{name: "b"}, raw{name: "c"}, raw{name: "d"}), small, app.TooLarge,
			"cannot unpack the ZIP: it holds more than the 3 entries allowed",
		},
		{"too many implied", rawZIP(t, raw{name: "a/b/c"}, raw{name: "d/e"}), small, app.TooLarge, "more than the 3 entries allowed"},
		{"too deep", rawZIP(t, raw{name: "a/b/c/d"}), small, app.Unusable, `entry "a/b/c/d" is nested more than 3 directories deep`},
		{
			"part too long", rawZIP(t, raw{name: long}),
			Limits{},
			app.Unusable,
			`entry "` + strings.Repeat("x", 80) + `..." has a part longer than 255 bytes in its name`,
		},
		{
			"name too long", rawZIP(t, raw{name: strings.Repeat(strings.Repeat("y", 250)+"/", 9) + "z"}),
			Limits{},
			app.Unusable,
			"has a name longer than 2048 bytes",
		},
		{
			"announces too much", rawZIP(t, raw{name: "a", size: ptr(1001)}), small, app.TooLarge,
			"cannot unpack the ZIP: it unpacks to more than 1000 bytes",
		},
		{
			"announces too much together", rawZIP(t, raw{name: "a", size: ptr(600)}, raw{name: "b", size: ptr(600)}), small, app.TooLarge,
			"it unpacks to more than 1000 bytes",
		},
		{"data outside", rawZIP(t, raw{name: "a", at: ptr(1 << 20)}), Limits{}, app.Unusable, `entry "a" is damaged`},
		{
			"shared data", rawZIP(t, raw{name: "a", data: "xyz"}, raw{name: "b", data: "xyz", at: ptr(0)}),
			Limits{},
			app.Unusable,
			`shares its data with`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(file(t, tt.zip), tt.lim, nil)
			if err == nil {
				a.Close()
				t.Fatal("accepted")
			}
			if app.KindOf(err) != tt.kind || !strings.Contains(text(err), tt.want) {
				t.Errorf("got kind %d %q, want kind %d %q", app.KindOf(err), text(err), tt.kind, tt.want)
			}
		})
	}
}

// The data of the entry is announced longer than what is left of the file.
func TestOpenRefusesCutOffData(t *testing.T) {
	t.Parallel()
	z := rawZIP(t, raw{name: "a", data: "0123456789"})
	i := strings.Index(string(z), "PK\x01\x02")
	z[i+20], z[i+21] = 0xff, 0xff
	_, err := Open(file(t, z), Limits{}, nil)
	if app.KindOf(err) != app.Unusable || !strings.Contains(text(err), `entry "a" is cut off`) {
		t.Fatal(err)
	}
}

// A directory with more headers than its count says is not read to the end.
func TestOpenBoundsTheDirectory(t *testing.T) {
	t.Parallel()
	entries := make([]raw, 20000)
	for i := range entries {
		entries[i] = raw{name: fmt.Sprintf("%05d", i)}
	}
	_, err := Open(file(t, rawZIP(t, entries...)), Limits{MaxEntries: 10}, nil)
	if app.KindOf(err) != app.TooLarge || !strings.Contains(text(err), "more than the 10 entries allowed") {
		t.Fatal(err)
	}
}

func TestOpenWithInsecurePathCheck(t *testing.T) {
	t.Setenv("GODEBUG", "zipinsecurepath=0")
	_, err := Open(file(t, rawZIP(t, raw{name: "../x"})), Limits{}, nil)
	if !strings.Contains(text(err), "climbs out") {
		t.Fatal(err)
	}
}

func TestOpenMissing(t *testing.T) {
	t.Parallel()
	_, err := Open(t.TempDir()+"/none.zip", Limits{}, nil)
	if err == nil || app.KindOf(err) != app.Internal {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		zip  []raw
		want string
	}{
		{"plain", []raw{{name: "a"}, {name: "b/c"}}, "a b/c"},
		{"wrapped", []raw{{name: "app/"}, {name: "app/a"}, {name: "app/b/c"}}, "a b/c"},
		{"wrapped without its entry", []raw{{name: "app/a"}, {name: "app/b/"}}, "a b/"},
		{"wrapped once", []raw{{name: "x/y/a"}}, "y/a"},
		{"wrapped beside rubbish", []raw{{name: "app/a"}, {name: "__MACOSX/app/._a"}, {name: ".DS_Store"}}, "a"},
		{"the icon of a folder", []raw{{name: "a"}, {name: "Icon\r"}, {name: "__MACOSX/._Icon\r"}, {name: "__MACOSX/../\xff"}}, "a"},
		{"wrapped beside the icon of a folder", []raw{{name: "app/a"}, {name: "app/Icon\r"}, {name: "Icon\r"}}, "a"},
		{"not wrapped by a file", []raw{{name: "app/a"}, {name: "b"}}, "app/a b"},
		{"not wrapped by a prefix", []raw{{name: "app/a"}, {name: "app2/b"}}, "app/a app2/b"},
		{"untidy", []raw{{name: "./a//b"}, {name: "./"}, {name: "c/./d"}}, "a/b c/d"},
		{"directories twice", []raw{{name: "a/"}, {name: "a/"}, {name: "b"}}, "a/ b"},
		{"dots that do not climb", []raw{{name: "..."}, {name: "..a"}}, "... ..a"},
		{"from Windows", []raw{{name: `a\`}, {name: `a\b.js`}, {name: `c`, creator: 10 << 8}}, "a/ a/b.js c"},
		{"from Windows, wrapped", []raw{{name: `app\a`}, {name: `app\b\c`}}, "a b/c"},
		{"CP437", []raw{{name: "na\x8bve"}, {name: "\xe1\xff"}}, "naïve ß\u00a0"},
		{"UTF-8 unflagged", []raw{{name: "é"}, {name: "b"}}, "é b"},
		{"UTF-8 flagged", []raw{{name: "é", flags: 1 << 11}, {name: "b"}}, "é b"},
		{"directory by mode", []raw{{name: "a", creator: unix, attrs: mode(0o040755)}, {name: "b"}}, "a/ b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(file(t, rawZIP(t, tt.zip...)), Limits{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			var got []string
			seen := make(map[string]bool)
			for _, e := range a.entries {
				name := e.name
				if e.dir {
					name += "/"
				}
				if !seen[name] {
					got = append(got, name)
				}
				seen[name] = true
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// The folder of a commit may be one of the application's directories.
func TestFolderOfACommit(t *testing.T) {
	tests := []struct {
		name string
		zip  []raw
		over *app.Code
		want string
	}{
		{"a new application", []raw{{name: "lib/a.js"}}, nil, "a.js"},
		{"a directory of the application", []raw{{name: "lib/a.js"}}, &app.Code{Main: "index.js"}, "lib/a.js"},
		{"without a main file", []raw{{name: "lib/a.js"}}, &app.Code{}, "lib/a.js"},
		{"the application's own, with the main file", []raw{{name: "bot/"}, {name: "bot/lib/a.js"}, {name: "bot/index.js"}}, &app.Code{Main: "index.js"}, "lib/a.js index.js"},
		{"the application's own, with the config", []raw{{name: "bot/" + ConfigName, data: "MAIN=b.js"}, {name: "bot/b.js"}}, &app.Code{Main: "a.js"}, ConfigName + " b.js"},
		{"a main file in a directory", []raw{{name: "src/index.js"}}, &app.Code{Main: "src/index.js"}, "src/index.js"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(file(t, rawZIP(t, tt.zip...)), Limits{}, tt.over)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			var got []string
			for _, e := range a.entries {
				got = append(got, e.name)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

func TestCP437HasEveryByte(t *testing.T) {
	t.Parallel()
	seen := make(map[rune]bool)
	for _, r := range cp437Runes {
		seen[r] = true
	}
	if len(cp437Runes) != 128 || len(seen) != 128 {
		t.Fatalf("%d characters, %d of them different", len(cp437Runes), len(seen))
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(rawZIP(f, raw{name: "a/discloud.config", data: "MAIN=x\nRAM=100"}, raw{name: "a/x", data: "hello", method: deflated}))
	f.Add(rawZIP(f, raw{name: "../x", stream: true}, raw{name: "\x80", flags: 1 << 11}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := file(t, data)
		a, err := Open(path, Limits{MaxUnpacked: 1 << 20}, nil)
		if err != nil {
			if app.KindOf(err) == app.Internal {
				t.Fatalf("a stranger's bytes made an internal error: %v", err)
			}
			return
		}
		defer a.Close()
		extractInto(t, a)
	})
}
