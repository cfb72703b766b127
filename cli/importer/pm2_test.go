package importer

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// ana's programs, which the dumps in testdata are of: PM2 4.5, 5, 6 and 7 have written them.
var anas = fakeMachine{
	"/home/ana/bot/index.js": "", "/home/ana/bot/package.json": "", "/home/ana/bot/worker.py": "", "/home/ana/api/src/server.js": "",
}

func TestDumps(t *testing.T) {
	for _, version := range []string{"4", "5", "6", "7"} {
		text, err := os.ReadFile("testdata/pm2-" + version + ".json")
		if err != nil {
			t.Fatal(err)
		}
		list, err := PM2(text, anas)
		if err != nil || len(list) != 4 {
			t.Fatalf("PM2 %s: %d programs, %v", version, len(list), err)
		}
		slices.SortFunc(list, func(a, b Candidate) int { return strings.Compare(a.From, b.From) })
		for i, want := range []struct{ from, dir, main, start, vars, stop string }{
			{"api", "/home/ana/api", "src/server.js", "node --enable-source-maps src/server.js --port 8080 'two words'", "API_KEY", "pm2 delete api"},
			{"bot", "/home/ana/bot", "index.js", "", "DISCORD_TOKEN", "pm2 delete bot"},
			{"npm app", "/home/ana/bot", "", "npm run start", "", "pm2 delete 'npm app'"},
			{"worker", "/home/ana/bot", "worker.py", "", "", "pm2 delete worker"},
		} {
			c := list[i]
			vars := strings.TrimSpace(strings.Replace(names(c), "PYTHONUNBUFFERED", "", 1)) // which PM2 sets for Python
			if c.Refusal != "" || c.From != want.from || c.Dir != want.dir || c.Config.Main != want.main || c.Config.Start != want.start || vars != want.vars || c.Stop != want.stop {
				t.Errorf("PM2 %s: %+v", version, c)
			}
			silent(t, c, "hush")
		}
		api, bot, worker := list[0], list[1], list[3]
		wantNotes(t, api, "PORT is not taken over", "cluster mode", "(watch)", "2 instances", "fixed port 8080")
		wantNotes(t, worker, "cron_restart")
		if len(bot.Notes) > 0 || bot.Config.RAM != 150 || bot.RAMFrom != "max_memory_restart" || !bot.Config.AutoRestart || worker.Config.AutoRestart || api.Config.RAM != 300 {
			t.Errorf("PM2 %s: %+v, %+v", version, bot, worker)
		}
		if valueOf(bot, "DISCORD_TOKEN") != "hush-discord-token" || len(api.PIDFiles) != 2 || bot.PIDFiles[0] != "/home/ana/.pm2/pids/bot-0.pid" {
			t.Errorf("PM2 %s: %q, %q", version, names(bot), api.PIDFiles)
		}
		text = fmt.Appendf(nil, "%+v %#v", bot, bot)
		if strings.Contains(string(text), "hush-discord") {
			t.Errorf("a candidate prints its variables: %s", text)
		}
	}
}

// One process of PM2, by what is unusual in it.
func TestProcesses(t *testing.T) {
	m := fakeMachine{
		"/home/ana/bot.js": "", "/home/ana/shop/src/index.js": "", "/home/ana/shop/package.json": "", "/srv/app/run": "", "/srv/app/main.py": "", "/srv/app/.venv/pyvenv.cfg": "",
		"/srv/app/.venv/bin/python": "", "/srv/app/start.sh": "", "/home/ana/.nvm/versions/node/v18.19.0/bin/node": "", "/srv/data/x": "", "/srv/deno/main.ts": "",
	}
	for name, tt := range map[string]struct {
		json                  string
		dir, main, start, why string
		notes                 []string
	}{
		"in a home":             {`"pm_cwd":"/home/ana","pm_exec_path":"/home/ana/bot.js"`, "", "", "", "its files are in /home/ana, which holds more than this program", nil},
		"started from a home":   {`"pm_cwd":"/home/ana","pm_exec_path":"/home/ana/shop/src/index.js"`, "/home/ana/shop", "src/index.js", "", "", []string{"It runs in /home/ana; berth runs it"}},
		"started from the root": {`"pm_cwd":"/","pm_exec_path":"/srv/app/run","exec_interpreter":"none"`, "/srv/app", "run", "", "", []string{"It runs in /;"}},
		"elsewhere":             {`"pm_cwd":"/srv/data","pm_exec_path":"/srv/app/main.py","exec_interpreter":"python3"`, "/srv/app", "main.py", "", "", []string{"It runs in /srv/data"}},
		"a virtual environment": {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/main.py","exec_interpreter":"/srv/app/.venv/bin/python"`, "/srv/app", "main.py", "", "", []string{".venv/bin/python is in the directory"}},
		"a user's own Node.js":  {`"pm_cwd":"/home/ana/shop","pm_exec_path":"/home/ana/shop/src/index.js","exec_interpreter":"/home/ana/.nvm/versions/node/v18.19.0/bin/node"`, "/home/ana/shop", "src/index.js", "", "", []string{"It runs /home/ana/.nvm/versions/node/v18.19.0/bin/node; berth runs the node of this host"}},
		"a path elsewhere":      {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/main.py","exec_interpreter":"python3","args":["--config","/etc/app.toml","--data=/srv/app/db"]`, "/srv/app", "main.py", "python3 main.py --config /etc/app.toml --data=db", "", []string{"/etc/app.toml is outside"}},
		"a secret":              {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/main.py","exec_interpreter":"python3","args":"--token hush"`, "/srv/app", "main.py", "python3 main.py --token hush", "", []string{"seems to hold a secret"}},
		"a shell script":        {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/start.sh","exec_interpreter":"bash"`, "/srv/app", "start.sh", "", "", nil},
		"a shell's text":        {`"pm_cwd":"/srv/app","pm_exec_path":"/bin/bash","exec_interpreter":"none","args":["-c","python3 main.py & ./run"]`, "/srv/app", "", "python3 main.py & ./run", "", []string{"more than one process", "started by a shell"}},
		"several lines":         {`"pm_cwd":"/srv/app","pm_exec_path":"/bin/bash","exec_interpreter":"none","args":["-c","python3 main.py\n./run"]`, "/srv/app", "", "", "several lines", nil},
		"Deno":                  {`"pm_cwd":"/srv/deno","pm_exec_path":"/srv/deno/main.ts","exec_interpreter":"deno","interpreter_args":"run"`, "/srv/deno", "", "deno main.ts", "", nil},
		"relative":              {`"pm_cwd":"/srv/app","pm_exec_path":"main.py"`, "", "", "", "is no absolute path", nil},
		"foreign program":       {`"pm_cwd":"/srv/app","pm_exec_path":"/opt/tool/bin/tool","exec_interpreter":"none","args":["main.py"]`, "", "", "", "there is no directory /opt/tool/bin", nil},
		"no directory":          {`"pm_cwd":"/srv/none","pm_exec_path":"/srv/none/main.js"`, "", "", "", "there is no directory /srv/none", nil},
		"a file of variables":   {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/main.js","node_args":["--env-file=.env"]`, "/srv/app", "main.js", "node --env-file=.env main.js", "", []string{"--env-file"}},
		"a number sign":         {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/main.py","exec_interpreter":"python3","args":["#general"]`, "/srv/app", "main.py", "", "has a #", nil},
		"odd settings":          {`"pm_cwd":"/srv/app","pm_exec_path":"/srv/app/main.js","max_memory_restart":"1G","args":{},"node_args":7,"watch":["src"],"env":{"N":5,"B":true,"O":{},"1X":"a","PATH":"x"}`, "/srv/app", "main.js", "node 7 main.js", "", []string{"(watch)", `no variable "1X"`}},
	} {
		list, err := PM2([]byte(`[{"name":"x",`+tt.json+`}]`), m)
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := list[0]
		if c.Dir != tt.dir || c.Config.Main != tt.main || c.Config.Start != tt.start || (c.Refusal == "") != (tt.why == "") || !strings.Contains(c.Refusal, tt.why) {
			t.Errorf("%s: %q %q %q %q", name, c.Dir, c.Config.Main, c.Config.Start, c.Refusal)
		}
		wantNotes(t, c, tt.notes...)
		silent(t, c, "hush")
		if name == "odd settings" && (c.Config.RAM != 1024 || names(c) != "B N") {
			t.Errorf("%s: %d MB, %s", name, c.Config.RAM, names(c))
		}
	}
}

func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"node x.js --token abc":                    "node x.js --token ****",
		"node x.js --api-key=abc -v":               "node x.js --api-key=**** -v",
		"run --db postgres://ana:hush@localhost/x": "run --db postgres://ana:****@localhost/x",
		"run --password 'two words' x":             "run --password **** x",
		"run --token $TOKEN --port 1":              "run --token $TOKEN --port 1",
	} {
		if got := Hide(text); got != want {
			t.Errorf("Hide(%q) = %q", text, got)
		}
	}
}

// What is no dump is refused, and no error repeats what is in it.
func TestNoDump(t *testing.T) {
	for _, text := range []string{"", "{}", "[1]", `["hush"]`, `[{"name":7}]`, `[{"env":"hush"}]`, `[{}]`, "[{\"name\":\"hush", "null x"} {
		list, err := PM2([]byte(text), anas)
		if err == nil || len(list) > 0 || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %d programs, %v", text, len(list), err)
		}
	}
	if _, err := PM2(make([]byte, MaxDump+1), anas); err == nil {
		t.Error("a dump of any size is read")
	}
	if _, err := PM2([]byte("["+strings.TrimSuffix(many(maxPrograms+1), ",")+"]"), anas); err == nil {
		t.Error("a dump of any number of programs is read")
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"p%d","pm_exec_path":"/srv/app/x"},`, i)
	}
	return b.String()
}

// FuzzPM2: whatever is read, no value of a variable is in a text that is printed, a directory
// is a narrow one, and a START is one line.
func FuzzPM2(f *testing.F) {
	f.Add([]byte(`[{"name":"api","args":["--port","8080"],"node_args":["-x"],"env":{"A":"b","PORT":"1","api":{}},"max_memory_restart":157286400,"pm_exec_path":"/home/ana/api/src/server.js","pm_cwd":"/home/ana/api","exec_interpreter":"node","exec_mode":"cluster_mode","watch":true,"pm_pid_path":"/x/1.pid"}]`))
	f.Add([]byte(`[{"name":"x","pm_cwd":"/home/ana/bot","pm_exec_path":"/bin/sh","exec_interpreter":"none","args":["-c","a & b"],"env":{"A":"b"}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := PM2(text, anas)
		if err != nil {
			if list != nil {
				t.Errorf("%d programs with %v", len(list), err)
			}
			return
		}
		for _, c := range list {
			checkCandidate(t, c)
		}
	})
}

func checkCandidate(t *testing.T, c Candidate) {
	t.Helper()
	if c.Dir != "" && (broad(anas, c.Dir) || path.Clean(c.Dir) != c.Dir) {
		t.Errorf("sends %q", c.Dir)
	}
	if strings.ContainsAny(c.Config.Start, "\n\r#") || len([]rune(c.Config.Start)) > maxStart || strings.HasPrefix(c.Config.Main, "/") || strings.HasPrefix(c.Config.Main, "../") {
		t.Errorf("MAIN=%q START=%q", c.Config.Main, c.Config.Start)
	}
	if n := utf8.RuneCountInString(c.Config.Name); n > maxName || strings.ContainsAny(c.Config.Name, "\n\r#=") {
		t.Errorf("NAME=%q", c.Config.Name)
	}
	if c.Refusal == "" && c.Dir == "" && c.ZIP == "" {
		t.Errorf("neither a directory nor a reason: %+v", c)
	}
	for _, v := range c.Variables {
		if !validName(v.Name) || !utf8.ValidString(v.Value) {
			t.Errorf("the variable %q", v.Name)
		}
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}
