package importer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/app"
)

// Candidate is a program that may become an application.
type Candidate struct {
	From string // what the source calls it: PM2's name, the unit, the file of a backup
	Dir  string // absolute directory that is packed; "" for a backup, and where it cannot be told
	ZIP  string // file of a backup that is sent as it is

	// Config is what the source says of the application: NAME, MAIN, START, RAM, AUTORESTART.
	// A discloud.config in the directory has its say before it.
	Config  app.Config
	RAMFrom string // what says so, such as "MemoryMax="; "" where nothing does

	Variables []app.Variable // sorted by name; values are secrets
	Notes     []string       // what is not taken over, and what to look at, a sentence each
	Refusal   string         // why it cannot be imported; "" if it can

	Stop     string   // command by which its owner ends the old program for good
	PIDFiles []string // of PM2, with the processes of the program
	Unit     string   // of systemd, which knows the processes
	User     bool     // the unit is one of a user's own manager
}

// Machine is where the descriptions come from. Paths are absolute. Implementations MUST NOT
// block on special files, and follow no link out of what they are asked for without need.
type Machine interface {
	// ReadFile returns a regular file of at most limit bytes.
	ReadFile(path string, limit int64) ([]byte, error)
	// IsFile and IsDir report what is at a path.
	IsFile(path string) bool
	IsDir(path string) bool
	// Home is the home directory of a user, the caller's for ""; "" if it is not known.
	Home(user string) string
}

// note adds a sentence once.
func (c *Candidate) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// refuse keeps the first reason.
func (c *Candidate) refuse(format string, args ...any) {
	if c.Refusal == "" {
		c.Refusal = fmt.Sprintf(format, args...)
	}
}

// errTooLarge is that of a file above its bound.
var errTooLarge = errors.New("it is too large")

// What an application may have, as the server judges it.
const (
	maxVariableName  = 128
	maxVariableValue = 32 << 10
	maxName          = 30
	maxStart         = 1000
)

// ofHost are variables that tell of the machine, the login or the process manager, and would be
// wrong in an application. A name that ends with * is the beginning of others.
var ofHost = []string{
	"_", "BASH*", "COLORTERM", "COLUMNS", "DBUS_*", "DEBIAN_FRONTEND", "DISPLAY", "EDITOR", "GPG_*", "HISTCONTROL", "HISTFILE", "HISTSIZE", "HOSTNAME", "INIT_CWD", "LANG", "LANGUAGE", "LC_*",
	"INVOCATION_ID", "JOURNAL_STREAM", "LESS*", "LINES", "LISTEN_*", "LOGNAME", "LS_COLORS", "MAIL", "MAINPID", "MANAGERPID", "MEMORY_PRESSURE_*", "MOTD_SHOWN", "NODE_APP_INSTANCE",
	"NOTIFY_SOCKET", "NVM_*", "OLDPWD", "PAGER", "PATH", "PIDFILE", "PM2_*", "PS1", "PWD", "PYENV_*", "SHELL", "SHLVL", "SSH_*", "STY", "SUDO_*", "SYSTEMD_*", "TERM", "TERM_*", "TMUX*",
	"USER", "VIRTUAL_ENV", "VISUAL", "WATCHDOG_*", "XAUTHORITY", "XDG_*", "npm_*", "unique_id",
}

// isOfHost reports whether a variable is one of ofHost.
func isOfHost(name string) bool {
	return slices.ContainsFunc(ofHost, func(known string) bool {
		prefix, open := strings.CutSuffix(known, "*")
		return name == known || open && strings.HasPrefix(name, prefix)
	})
}

// take takes variables over, by name, but for those that are of the host or that berth sets.
func (c *Candidate) take(all map[string]string) {
	var bad []string
	for name, value := range all {
		switch {
		case isOfHost(name):
		case name == "HOME" || name == "TMPDIR":
		case name == "PORT":
			c.note("PORT is not taken over: berth gives each program a port of its own in PORT, and its visitors come there.")
		case !validName(name) || strings.HasPrefix(name, "BERTH_"), !utf8.ValidString(value), strings.Contains(value, "\x00"), len(value) > maxVariableValue:
			bad = append(bad, fmt.Sprintf("%.40q", name))
		default:
			c.Variables = slices.DeleteFunc(c.Variables, func(v app.Variable) bool { return v.Name == name })
			c.Variables = append(c.Variables, app.Variable{Name: name, Value: value})
		}
	}
	if slices.Sort(bad); bad != nil {
		c.note("berth can have no variable %s: its name is no name, or its value is too long or no text.", strings.Join(bad, ", "))
	}
	slices.SortFunc(c.Variables, func(a, b app.Variable) int { return strings.Compare(a.Name, b.Name) })
}

// AddEnv takes over the variables of a .env file in the directory, which programs read
// themselves: one that the source set comes before it.
func (c *Candidate) AddEnv(file string, all map[string]*string) {
	more := map[string]string{}
	for name, value := range all {
		if !slices.ContainsFunc(c.Variables, func(v app.Variable) bool { return v.Name == name }) {
			more[name] = *value
		}
	}
	c.take(more)
	c.note("The variables of %s are taken over, and the file is not sent.", file)
}

func validName(name string) bool {
	if name == "" || len(name) > maxVariableName || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) < 0
}

// nameOf makes the name of an application of a name of the source.
func nameOf(text string) string {
	name := []rune(strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`#=/\`, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))))
	return strings.TrimSpace(string(name[:min(len(name), maxName)]))
}

// within returns a path relative to a directory, and whether it is below it.
func within(dir, file string) (string, bool) {
	dir, file = path.Clean(dir), path.Clean(file)
	if dir == "/" {
		return "", false
	}
	rel, is := strings.CutPrefix(file, dir+"/")
	return rel, is
}

// broad reports whether a directory holds more than one program's files: the root, what is
// right below it, homes, and directories of the system. To send such a one would send what is
// nobody's business.
func broad(m Machine, dir string) bool {
	dir = path.Clean(dir)
	parts := strings.Split(strings.Trim(dir, "/"), "/")
	switch {
	case !path.IsAbs(dir), len(parts) < 2, dir == m.Home(""):
		return true
	case slices.Contains([]string{"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys"}, parts[0]):
		return true
	case parts[0] == "home":
		return len(parts) < 3
	case parts[0] == "usr":
		return len(parts) < 4 && parts[1] != "src" || len(parts) < 3
	case parts[0] == "var":
		return len(parts) < 3
	}
	return strings.HasPrefix(parts[len(parts)-1], ".") && len(parts) < 4 // such as ~/.ssh of root
}

// manifests are files by which the directory of a project is known.
var manifests = []string{"discloud.config", "package.json", "requirements.txt", "pyproject.toml", "deno.json", "Cargo.toml", "go.mod", "composer.json", "Gemfile"}

// settle chooses the directory: the working directory, or that of the program's file where the
// working directory holds more than the program. File is the absolute path of the script or
// the program, "" if the command line names none.
func (c *Candidate) settle(m Machine, cwd, file string) {
	if cwd != "" && !broad(m, cwd) && m.IsDir(cwd) {
		if _, is := within(cwd, file); is || file == "" {
			c.Dir = path.Clean(cwd)
			return
		}
	}
	if file == "" {
		c.refuse("its directory cannot be told: it runs in %s, and its command line names no file of its own", orRoot(cwd))
		return
	}
	dir := path.Dir(file)
	for at := dir; !broad(m, at); at = path.Dir(at) {
		if slices.ContainsFunc(manifests, func(name string) bool { return m.IsFile(path.Join(at, name)) }) {
			dir = at
			break
		}
	}
	switch {
	case broad(m, dir):
		c.refuse("its files are in %s, which holds more than this program: move them into a directory of their own", dir)
	case !m.IsDir(dir):
		c.refuse("there is no directory %s", dir)
	default:
		c.Dir = dir
		c.note("It runs in %s; berth runs it in its own directory, made of %s, so that other relative paths lead elsewhere.", orRoot(cwd), dir)
	}
}

func orRoot(dir string) string {
	if dir == "" {
		return "/"
	}
	return dir
}
