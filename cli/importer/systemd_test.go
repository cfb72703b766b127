package importer

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var services = fakeMachine{
	"/opt/bot/bot.py": "", "/opt/bot/requirements.txt": "", "/opt/bot/venv/pyvenv.cfg": "", "/opt/bot/venv/bin/python": "", "/srv/site/server.js": "", "/srv/site/package.json": "",
	"/home/ana/radio/radio": "", "/etc/bot.env": "# for the bot\nTOKEN=\"hush token\"\nPORT=80\nMODE = test \\\n  run\nQUOTE='it''s'\nnonsense\n", "/srv/two/one/main.py": "", "/srv/two/other/main.py": "",
}

func TestService(t *testing.T) {
	for name, tt := range map[string]struct {
		unit                       string
		text                       string
		dir, main, start, why, env string
		ram                        int64
		notes                      []string
	}{
		"a bot": {
			"bot.service",
			"[Unit]\nDescription=Bot\nAfter=network.target postgresql.service\n[Service]\nUser=bot\nWorkingDirectory=/opt/bot\n" +
				"ExecStart=/opt/bot/venv/bin/python \\\n  # why\n  bot.py\nRestart=always\nMemoryMax=256M\nEnvironment=\"GREETING=hello world\" 'B=it' C=\\x41\nEnvironmentFile=-/etc/bot.env\nEnvironmentFile=-/etc/none\n[Install]\nWantedBy=multi-user.target\n",
			"/opt/bot", "bot.py", "", "", "B C GREETING MODE QUOTE TOKEN", 256,
			[]string{"postgresql.service", "PORT is not taken over", "venv/bin/python is in the directory"},
		},
		"a site": {
			"site.service",
			"[Service]\nType=notify\nWorkingDirectory=/srv/site\nExecStartPre=/usr/bin/npm ci\nExecStart=/usr/bin/node --max-old-space-size=200 server.js --port=${PORT} $ARGS 'a b' $$x\nAmbientCapabilities=CAP_NET_BIND_SERVICE\nStateDirectory=site\nMemoryHigh=1G\nMemoryMax=infinity\nEnvironmentFile=/etc/none\nKillSignal=SIGINT\nExecStop=/bin/x\nWatchdogSec=5\n",
			"/srv/site", "server.js", `node --max-old-space-size=200 server.js "--port=${PORT}" $ARGS 'a b' "\$x"`, "", "", 1024,
			[]string{"Type=notify", "ExecStartPre= is not run", "below 1024", "StateDirectory=", "/etc/none are not taken over", "KillSignal=", "ExecStop=", "WatchdogSec="},
		},
		"no working directory":   {"radio.service", "[Service]\nExecStart=/home/ana/radio/radio\n", "/home/ana/radio", "radio", "", "", "", 0, []string{"It runs in /;"}},
		"specifiers":             {"radio.service", "[Service]\nUser=ana\nWorkingDirectory=~\nExecStart=/home/ana/%p/%N\nEnvironment=UNIT=%n%% HOST=%H\n", "/home/ana/radio", "radio", "", "", "HOST UNIT", 0, []string{"%H"}},
		"an instance":            {"two@one.service", "[Service]\nWorkingDirectory=/srv/two/%i\nExecStart=/usr/bin/python3 main.py\n", "/srv/two/one", "main.py", "", "", "", 0, nil},
		"a template":             {"two@.service", "[Service]\nExecStart=/usr/bin/python3 main.py\n", "", "", "", "it is a template: name an instance of it, such as two@one.service", "", 0, nil},
		"a shell":                {"x.service", "[Service]\nWorkingDirectory=/srv/site\nExecStart=/bin/sh -c \"node server.js >> /var/log/site.log\"\n", "/srv/site", "", "node server.js >> /var/log/site.log", "", "", 0, []string{"started by a shell", "/var/log/site.log is outside"}},
		"oneshot":                {"x.service", "[Service]\nType=oneshot\nExecStart=/opt/bot/bot.py\n", "", "", "", "of type oneshot", "", 0, nil},
		"forking":                {"x.service", "[Service]\nType=forking\nExecStart=/opt/bot/bot.py\n", "", "", "", "of type forking", "", 0, nil},
		"two commands":           {"x.service", "[Service]\nExecStart=/opt/bot/bot.py\nExecStart=/opt/bot/bot.py x\n", "", "", "", "more than one command", "", 0, nil},
		"two in a line":          {"x.service", "[Service]\nExecStart=/opt/bot/bot.py ; /bin/true\n", "", "", "", "more than one command", "", 0, nil},
		"a list begun anew":      {"x.service", "[Service]\nExecStart=/bin/false\nExecStart=\nExecStart=/opt/bot/bot.py\nWorkingDirectory=/opt/bot\n", "/opt/bot", "bot.py", "", "", "", 0, nil},
		"no command":             {"x.service", "[Service]\nUser=x\n", "", "", "", "has no ExecStart=", "", 0, nil},
		"an open quote":          {"x.service", "[Service]\nExecStart=/opt/bot/bot.py \"hush\n", "", "", "", "a quote does not close", "", 0, nil},
		"a root of its own":      {"x.service", "[Service]\nRootDirectory=/srv\nExecStart=/opt/bot/bot.py\n", "", "", "", "needs RootDirectory=", "", 0, nil},
		"a program elsewhere":    {"x.service", "[Service]\nWorkingDirectory=/opt/bot\nExecStart=/usr/lib/x/x bot.py\n", "", "", "", "its files are in /usr/lib/x, which holds more", "", 0, nil},
		"of the system alone":    {"x.service", "[Service]\nExecStart=/usr/sbin/sshd -D\n", "", "", "", "names no file of its own", "", 0, nil},
		"another name for it":    {"x.service", "[Service]\nWorkingDirectory=/opt/bot\nExecStart=@/usr/bin/python3 bot bot.py\n", "/opt/bot", "bot.py", "", "", "", 0, nil},
		"with privileges":        {"x.service", "[Service]\nWorkingDirectory=/opt/bot\nExecStart=+/usr/bin/python3 bot.py\nMemoryMax=10%\n", "/opt/bot", "bot.py", "", "", "", 0, []string{"privileges", "MemoryMax=10%"}},
		"PM2":                    {"pm2-ana.service", "[Service]\nType=forking\nExecStart=/usr/lib/node_modules/pm2/bin/pm2 resurrect\n", "", "", "", "forking", "", 0, nil},
		"berth":                  {"berth.service", "[Service]\nExecStart=/usr/local/bin/berth serve\n", "", "", "", "it is berth itself", "", 0, nil},
		"unset":                  {"x.service", "[Service]\nWorkingDirectory=/opt/bot\nExecStart=/usr/bin/python3 bot.py\nEnvironment=A=1 B=2\nUnsetEnvironment=B\n", "/opt/bot", "bot.py", "", "", "A", 0, nil},
		"keys outside a section": {"x.service", "ExecStart=/opt/bot/bot.py\n[Service\nExecStart=/x\n", "", "", "", "has no ExecStart=", "", 0, nil},
	} {
		c := Service(Unit{Name: tt.unit, Text: []byte(tt.text)}, services)
		if c.Dir != tt.dir || c.Config.Main != tt.main || c.Config.Start != tt.start || (c.Refusal == "") != (tt.why == "") || !strings.Contains(c.Refusal, tt.why) || names(c) != tt.env || int64(c.Config.RAM) != tt.ram {
			t.Errorf("%s: %q MAIN=%q START=%q %q %q %d MB", name, c.Dir, c.Config.Main, c.Config.Start, c.Refusal, names(c), c.Config.RAM)
		}
		wantNotes(t, c, tt.notes...)
		silent(t, c, "hush")
		switch name {
		case "a bot":
			got := map[string]string{}
			for _, v := range c.Variables {
				got[v.Name] = v.Value
			}
			want := map[string]string{"B": "it", "C": "A", "GREETING": "hello world", "MODE": "test   run", "QUOTE": "its", "TOKEN": "hush token"}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %q", name, got)
			}
			if c.Stop != "systemctl disable --now bot.service" || !c.Config.AutoRestart || c.RAMFrom != "MemoryMax=" {
				t.Errorf("%s: %+v", name, c)
			}
		case "specifiers":
			if valueOf(c, "UNIT") != "radio.service%" {
				t.Errorf("%s: %q", name, valueOf(c, "UNIT"))
			}
		}
	}
}

// Drop-ins are read behind the unit; a user's own manager starts in its home.
func TestDropIns(t *testing.T) {
	c := Service(Unit{
		Name: "radio.service", Text: []byte("[Service]\nExecStart=%h/radio/radio\nMemoryMax=64M\n"), User: true, Owner: "ana", Timers: []string{"radio.timer"},
		DropIns: [][]byte{[]byte("[Service]\nMemoryMax=96M\nExecStart=\nExecStart=%h/radio/radio --loud\n"), []byte("[Service]\nRestart=on-failure\n")},
	}, services)
	if c.Refusal != "" || c.Dir != "/home/ana/radio" || c.Config.Start != "./radio --loud" || c.Config.RAM != 96 || !c.Config.AutoRestart || c.Stop != "systemctl --user disable --now radio.service" {
		t.Errorf("%+v", c)
	}
	wantNotes(t, c, "radio.timer starts it too")
}

func TestOtherUnit(t *testing.T) {
	for name, want := range map[string]bool{"a.timer": true, "a.socket": true, "a.path": true, "a.target": false, "a.service": false, "a": false} {
		if c, ok := OtherUnit(name); ok != want || ok && (c.Refusal == "" || c.Config.Name != "a") {
			t.Errorf("OtherUnit(%q) = %+v, %t", name, c, ok)
		}
	}
}

// Words are those of systemd.syntax(7).
func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		`a  b` + "\t" + `c`: {"a", "b", "c"}, `"a b" 'c "d"'`: {"a b", `c "d"`}, `a\x20b \u00e4 \101 \s`: {"a b", "ä", "A", " "}, `"" x`: {"", "x"}, `a\z \x0`: {`a\z`, `\x0`}, `\`: {`\`},
	} {
		if got, err := split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("split(%q) = %q, %v", line, got, err)
		}
	}
}

// The START of a unit gives the same words in a shell as systemd would give the program.
func TestQuoting(t *testing.T) {
	for _, word := range []string{"a b", "it's", `a"b\c`, "`id`", "a$(id)", "$", "1$ 2$", "x;y", "", "ä", "*"} {
		for _, expands := range []bool{false, true} {
			out, err := exec.Command("sh", "-c", "printf %s "+quote(word, expands)).Output()
			if err != nil || string(out) != word {
				t.Errorf("quote(%q, %t) = %s, which is %q (%v)", word, expands, quote(word, expands), out, err)
			}
		}
	}
}

// FuzzUnit: whatever a unit says, a directory is a narrow one, a START is one line, and no value
// of a file of variables is in what is printed.
func FuzzUnit(f *testing.F) {
	f.Add("bot.service", "[Service]\nWorkingDirectory=/opt/bot\nExecStart=/opt/bot/venv/bin/python bot.py \\\n x\nEnvironmentFile=/etc/bot.env\nEnvironment=\"A=%h\"\n")
	f.Add("a@b.service", "[Service]\nExecStart=-@/bin/sh sh -c 'cd /srv && ./x & y'\nEnvironment=A=\\x41 %i\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		c := Service(Unit{Name: name, Text: []byte(text), DropIns: [][]byte{[]byte(text)}}, services)
		checkCandidate(t, c)
		silent(t, c, "hush token")
	})
}

// FuzzVariables: names and values of a file are those of its lines, in their order, and the
// form in which a value is written does not matter.
func FuzzVariables(f *testing.F) {
	f.Add("A=1\nB='x y'\nC=\"q\\\"\"\n#D=1\nE=a\\\nb\n", "value")
	f.Fuzz(func(t *testing.T, text, value string) {
		variables(text)
		if strings.ContainsAny(value, "'\x00") {
			return
		}
		if got := variables("A=1\nX='" + value + "'\nB=2\n"); got["X"] != value || got["A"] != "1" || got["B"] != "2" || len(got) != 3 {
			t.Errorf("X='%s' is read as %q", value, got)
		}
	})
}
