package bundle

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"berth/app"
)

func TestParseConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       app.Config
	}{
		{"empty", "", app.Config{}},
		{"BOM and CRLF", "\ufeffMAIN=a.js\r\nRAM=100\r\n", app.Config{Main: "a.js", RAM: 100, Keys: []string{"MAIN", "RAM"}}},
		{"comments", "# all\n  # more\nMAIN=a.js # why\nNAME=x#y\n\n", app.Config{Main: "a.js", Name: "x", Keys: []string{"MAIN", "NAME"}}},
		{"comment cuts commands as clients do", "START=node a.js#x", app.Config{Start: "node a.js", Keys: []string{"START"}}},
		{"fragment of an avatar", "avatar=https://x.y/a#b # c", app.Config{AvatarURL: "https://x.y/a#b", Keys: []string{"AVATAR"}}},
		{"avatar is only a comment", "AVATAR= # none", app.Config{}},
		{"avatar is only a comment at once", "AVATAR=#none", app.Config{}},
		{
			"nothing filled in", "MAIN=\nTYPE=\nRAM=\nVERSION= # later\nNAME= \nAVATAR=\r\nID=\nSTART=\nBUILD=\nAUTORESTART=\nVLAN=\nFOO=",
			app.Config{},
		},
		{"no packages", "APT= # ffmpeg", app.Config{Keys: []string{"APT"}}},
		{"avatar commented out", "#AVATAR=ftp://x", app.Config{}},
		{"health", "HEALTH=/up?deep=1", app.Config{Health: "/up?deep=1", Keys: []string{"HEALTH"}}},
		{"memory signal", "MEMORY_SIGNAL=usr2", app.Config{MemorySignal: "SIGUSR2", Keys: []string{"MEMORY_SIGNAL"}}},
		{"input", "STDIN=True", app.Config{Stdin: true, Keys: []string{"STDIN"}}},
		{"health off", "HEALTH=Off", app.Config{Health: app.HealthOff, Keys: []string{"HEALTH"}}},
		{"first =", "START=A=1 B=2 node .", app.Config{Start: "A=1 B=2 node .", Keys: []string{"START"}}},
		{"keys in any case, spaces", "  main =  src/a.js \n\tType\t= SITE", app.Config{Main: "src/a.js", Type: app.Site, Keys: []string{"MAIN", "TYPE"}}},
		{"unknown keys", "VLAN=true\nFOO=bar", app.Config{Keys: []string{"VLAN", "FOO"}}},
		{"main of Windows", `MAIN=src\bot\index.js`, app.Config{Main: "src/bot/index.js", Keys: []string{"MAIN"}}},
		{"ram with its unit", "RAM=512MB", app.Config{RAM: 512, Keys: []string{"RAM"}}},
		{"ram in GB", "RAM=1.5 gb", app.Config{RAM: 1536, Keys: []string{"RAM"}}},
		{"main is cleaned", "MAIN=./src//a.js", app.Config{Main: "src/a.js", Keys: []string{"MAIN"}}},
		{
			"everything", "MAIN=a\nTYPE=bot\nRAM=1\nVERSION=20.x.x\nNAME=Ünïcödé\nAVATAR=http://x/y\nID=my\nSTART=s\nBUILD=b\nAUTORESTART=true\nAPT=tools, canvas,,",
			app.Config{
				Main: "a", RAM: 1, Version: "20.x.x", Name: "Ünïcödé", AvatarURL: "http://x/y", ID: "my", Start: "s", Build: "b", AutoRestart: true,
				APT:  []string{"tools", "canvas"},
				Keys: []string{"MAIN", "TYPE", "RAM", "VERSION", "NAME", "AVATAR", "ID", "START", "BUILD", "AUTORESTART", "APT"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseConfig(strings.NewReader(tt.text))
			if len(got.Lines) != len(got.Keys) || len(got.Keys) > 0 && !strings.Contains(got.Where(got.Keys[0]).String(), " line ") {
				t.Errorf("lines %v of keys %v", got.Lines, got.Keys)
			}
			got.Lines = nil
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"no =", "MAIN=a\nhello", `discloud.config line 2: "hello": must be KEY=value`},
		{"no key", "=x", `discloud.config line 1: "=x": must be KEY=value`},
		{"duplicate", "RAM=1\nram=2", `discloud.config line 2: RAM="2": is set already in line 1`},
		{"duplicate unknown", "FOO=1\nFOO=2", `line 2: FOO="2": is set already in line 1`},
		{"control character", "NAME=a\x00b", `line 1: NAME="a\x00b": must not hold control characters`},
		{"stray CR", "NAME=a\rb", `must not hold control characters`},
		{"duplicate of an empty one", "RAM=\nRAM=2", `line 2: RAM="2": is set already in line 1`},
		{"main absolute", "MAIN=/etc/passwd", `line 1: MAIN="/etc/passwd": must be the path of a file in the ZIP, such as src/index.js`},
		{"main climbs", "MAIN=../x", "must be the path"},
		{"main climbs inside", "MAIN=a/../b", "must be the path"},
		{"main is a directory", "MAIN=src/", "must be the path"},
		{"main is the top", "MAIN=.", "must be the path"},
		{"main climbs on Windows", `MAIN=..\a.js`, "must be the path"},
		{"main absolute on Windows", `MAIN=\a.js`, "must be the path"},
		{"type", "TYPE=web", `TYPE="web": must be bot or site`},
		{"ram", "A=\n\nRAM=abc", `discloud.config line 3: RAM="abc": must be an amount such as 512, 512MB or 1.5GB`},
		{"ram zero", "RAM=0", "must be an amount such as 512, 512MB or 1.5GB"},
		{"ram negative", "RAM=-5", "must be an amount such as 512, 512MB or 1.5GB"},
		{"ram signed", "RAM=+5", "must be an amount such as 512, 512MB or 1.5GB"},
		{"ram unit", "RAM=100KB", "must be an amount such as 512, 512MB or 1.5GB"},
		{"ram huge", "RAM=99999999999999999999", "must be an amount such as 512, 512MB or 1.5GB"},
		{"ram overflows bytes", "RAM=8796093022208", "must be an amount such as 512, 512MB or 1.5GB"},
		{"version", "VERSION=v20", `VERSION="v20": must be latest, current, lts, legacy, suja or a version such as 20.x.x`},
		{"version too long", "VERSION=1.2.3.4", "must be latest"},
		{"name long", "NAME=" + strings.Repeat("é", 31), "must have 1 to 30 characters"},
		{"avatar scheme", "AVATAR=javascript:alert(1)", "must be an http or https address"},
		{"avatar without host", "AVATAR=http:///x", "must be an http or https address"},
		{"avatar long", "AVATAR=https://x/" + strings.Repeat("y", 512), "at most 512 characters"},
		{"start long", "START=" + strings.Repeat("y", 1001), "at most 1000 characters"},
		{"build long", "BUILD=" + strings.Repeat("y", 1001), "at most 1000 characters"},
		{"autorestart", "AUTORESTART=yes", "must be true or false"},
		{"signal that ends", "MEMORY_SIGNAL=SIGTERM", "must be SIGUSR1, SIGUSR2, SIGURG or SIGWINCH"},
		{"input that is neither", "STDIN=yes", `STDIN="yes": must be true or false`},
		{"signal by number", "MEMORY_SIGNAL=10", "must be SIGUSR1"},
		{"health word", "HEALTH=yes", "must be off, or a path"},
		{"health address", "HEALTH=http://x/y", "must be off, or a path"},
		{"health host", "HEALTH=//x/y", "must be off, or a path"},
		{"health space", "HEALTH=/a b", "must be off, or a path"},
		{"health escape", "HEALTH=/%zz", "must be off, or a path"},
		{"health backslash", "HEALTH=/a\\b", "must be off, or a path"},
		{"health long", "HEALTH=/" + strings.Repeat("y", 200), "at most 200 characters"},
		{"too large", "#" + strings.Repeat("x", maxConfig), "discloud.config is larger than 64 KB"},
		{"UTF-16", "\xff\xfeM\x00", "discloud.config is not UTF-8 text"},
		{"long value", "TYPE=" + strings.Repeat("z", 500), `TYPE="` + strings.Repeat("z", 80) + `...": must be bot or site`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseConfig(strings.NewReader(tt.text))
			if app.KindOf(err) != app.Unusable || !strings.Contains(text(err), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
			if !reflect.DeepEqual(got, app.Config{}) {
				t.Errorf("a half-parsed config: %+v", got)
			}
		})
	}
}

func TestParseConfigBoundaries(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"NAME=" + strings.Repeat("é", 30), "START=" + strings.Repeat("y", 1000), "VERSION=LATEST", "VERSION=1.x", "VERSION=legacy",
		"AUTORESTART=FALSE", "#" + strings.Repeat("x", maxConfig-1), "START=a\tb",
	} {
		if _, err := ParseConfig(strings.NewReader(text)); err != nil {
			t.Errorf("%.20s...: %v", text, err)
		}
	}
}

func TestParseConfigReadError(t *testing.T) {
	t.Parallel()
	_, err := ParseConfig(iotest.ErrReader(errors.New("no disk")))
	if err == nil || app.KindOf(err) != app.Internal {
		t.Error(err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("MAIN=a.js\nRAM=100 # mb\nAVATAR=http://x#y")
	f.Add("\ufeff=\r\n#\n\x00=\xff")
	f.Fuzz(func(t *testing.T, s string) {
		cfg, err := ParseConfig(strings.NewReader(s))
		if err != nil {
			if app.KindOf(err) != app.Unusable || !strings.HasPrefix(text(err), ConfigName) || len(text(err)) > 4000 {
				t.Fatalf("not a sentence for the user: %v", err)
			}
			return
		}
		if strings.HasPrefix(cfg.Main, "/") || strings.Contains(cfg.Main, "..") && strings.Contains(cfg.Main, "../") {
			t.Fatalf("main %q", cfg.Main)
		}
		if cfg.RAM < 0 || cfg.RAM.Bytes() < 0 {
			t.Fatalf("ram %d", cfg.RAM)
		}
	})
}

// Each key that is said to mean something does.
func TestConfigKeysAreKnown(t *testing.T) {
	if got := slices.Sorted(maps.Keys(setters)); !slices.Equal(got, slices.Sorted(slices.Values(app.ConfigKeys))) {
		t.Errorf("the parser knows %v, the vocabulary %v", got, app.ConfigKeys)
	}
}
