package diagnosis

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"berth/app"
)

var update = flag.Bool("update", false, "write what is found into the files of testdata, to be read")

const id app.ID = "1795349880722"

// told is a diagnosis as the files of testdata have it.
func told(lines []string, d Diagnosis) string {
	var b strings.Builder
	line := "(none)"
	if d.Line >= 0 {
		line = lines[d.Line]
	}
	why := strings.ReplaceAll(d.Why.String(), "linux/"+runtime.GOARCH, "linux/amd64") // the outputs are of that
	fmt.Fprintf(&b, "line: %s\nwhy:  %s\nhelp: %v\nfile: %s %d\n", line, why, d.Help, d.File, d.At)
	return b.String()
}

// TestOf reads what runtimes printed of common failures. Each file of testdata says what
// printed it, what is found, and has the output.
func TestOf(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("there are %d outputs, %v", len(files), err)
	}
	known := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, output, _ := strings.Cut(string(text), "\n\n")
		command, want, _ := strings.Cut(head, "\n")
		lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
		d := Of(id, lines)
		if !d.Why.IsZero() {
			known++
		}
		got := told(lines, d)
		if *update {
			if err := os.WriteFile(file, []byte(command+"\n"+got+"\n"+output), 0o644); err != nil { //nolint:gosec // as it was
				t.Fatal(err)
			}
			continue
		}
		if got != want+"\n" {
			t.Errorf("%s:\n%swant\n%s", file, got, want)
		}
	}
	if known < 30 {
		t.Errorf("only %d outputs have a sentence", known)
	}
}

// What could not be run here: lines as their users reported them.
func TestReported(t *testing.T) {
	for line, want := range map[string]string{
		"discord.errors.LoginFailure: Improper token has been passed.":                                   "The token of the bot",
		"Error [TOKEN_INVALID]: An invalid token was provided.":                                          "The token of the bot",
		"telegram.error.InvalidToken: Not Found":                                                         "The token of the bot",
		"Error: Used disallowed intents":                                                                 "The bot asks Discord for intents",
		"discord.errors.PrivilegedIntentsRequired: Shard ID None is requesting privileged intents":       "The bot asks Discord for intents",
		"NODE_MODULE_VERSION 93. This version of Node.js requires":                                       "A package was compiled for another version",
		"ValueError: Missing required environment variable: DATABASE_URL":                                "The variable DATABASE_URL is not set",
		"Error: The DISCORD_TOKEN environment variable is missing":                                       "The variable DISCORD_TOKEN is not set",
		"Error: DISCORD_TOKEN is required":                                                               "The variable DISCORD_TOKEN is not set",
		"2026/11/26 11:22:44 BOT_TOKEN not set":                                                          "The variable BOT_TOKEN is not set",
		"Error: listen EACCES: permission denied 0.0.0.0:80":                                             "Programs may not listen on the port 80",
		"PermissionError: [Errno 13] Permission denied: '/usr/share/x'":                                  `The program may not use "/usr/share/x"`,
		"Error: EROFS: read-only file system, mkdir '/opt/x'":                                            `The program may not use "/opt/x"`,
		"Error: Cannot find module '@discordjs/voice/dist'":                                              `The package "@discordjs/voice" is not installed`,
		"ModuleNotFoundError: No module named 'cv2'":                                                     `The package "opencv-python-headless"`,
		"[Errno 98] error while attempting to bind on address ('0.0.0.0', 8080): address already in use": "Another program has the port",
		"Failed to listen on 0.0.0.0:8080 (reason: Address already in use)":                              "Another program has the port 8080",
		"PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted":                             "The program needed more memory",

		// What no rule knows.
		"the token is not set": "",
		"ok":                   "",
	} {
		if got := Of(id, []string{line}).Why.String(); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// Lines that a program made up are read as others are, in bounded time, and put nothing long into a sentence.
func TestHostile(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, lines := range [][]string{
		nil,
		{""},
		{"\x00\xff"},
		{long},
		{"Error: Cannot find module '" + long + "'"},
		{"SyntaxError: x", "  at apps/1795349880722/../../../etc/passwd:1"},
		{"apps/1795349880722/" + long + ":1"},
		{"ModuleNotFoundError: No module named '\x1b]0;x\xff" + long + "'"},
		strings.Split(strings.Repeat("Error: x: y: \n", 100_000), "\n"),
	} {
		d := Of(id, lines)
		if len(d.Why.String()) > 500 || strings.Contains(d.File, "..") || d.Line >= len(lines) {
			t.Errorf("%.100q: %+v", lines, d)
		}
	}
	if d := Of(id, []string{"SyntaxError: x", "/var/lib/berth/apps/99/index.js:1"}); d.File != "" {
		t.Errorf("the file is another application's: %+v", d)
	}
}

func FuzzOf(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		d := Of(id, lines)
		if d.Line < -1 || d.Line >= len(lines) || d.At > 0 && d.File == "" || len(d.Why.String()) > 500 {
			t.Errorf("%+v", d)
		}
	})
}
