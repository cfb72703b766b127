package importer

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// shells run a text that somebody wrote for them.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh"}

// interpreters are the programs that start a file of a language, by the endings of its files.
// With more than the file on the command line, or with none of these endings, the whole command
// line becomes START.
var interpreters = map[string][]string{
	"node": {".js", ".mjs", ".cjs"}, "nodejs": {".js", ".mjs", ".cjs"},
	"python": {".py"}, "python3": {".py"}, "ruby": {".rb"}, "php": {".php"},
	"sh": {".sh"}, "bash": {".sh"}, "dash": {".sh"}, "zsh": nil, "ksh": nil,
	"deno": nil, "bun": nil, "tsx": nil, "ts-node": nil, "java": nil, "perl": nil, "npm": nil, "npx": nil, "yarn": nil, "pnpm": nil,
	"poetry": nil, "pipenv": nil, "uv": nil, "gunicorn": nil, "uvicorn": nil, "hypercorn": nil, "flask": nil, "bundle": nil, "dotnet": nil,
}

// line is a command line of the source.
type line struct {
	cwd     string // "" if it is not known
	argv    []string
	script  string // absolute path of the word that is the program's own file; "" if the source does not say
	expands bool   // $NAME and ${NAME} in it mean variables, as systemd has it
}

// systemBins are where programs of the system are.
var systemBins = []string{"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"}

var minorVersion = regexp.MustCompile(`^(python3|node|php|ruby)[.-]?[0-9.]+$`)

// base is the name of a program without its directory and version.
func base(program string) string {
	name := path.Base(program)
	if m := minorVersion.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// absolute is an argument as a path.
func (l line) absolute(arg string) string {
	if path.IsAbs(arg) {
		return path.Clean(arg)
	}
	if l.cwd == "" || strings.HasPrefix(arg, "-") {
		return ""
	}
	return path.Join(l.cwd, arg)
}

// start takes a command line over: it settles the directory, and what is MAIN and START there.
func (c *Candidate) start(m Machine, l line) {
	if len(l.argv) == 0 || l.argv[0] == "" {
		c.refuse("it has no command line")
		return
	}
	program := l.argv[0]
	if slices.Contains(shells, base(program)) && len(l.argv) > 2 && strings.HasPrefix(l.argv[1], "-") && strings.HasSuffix(l.argv[1], "c") {
		c.shell(m, l)
		return
	}
	ofSystem := !strings.Contains(program, "/") || slices.Contains(systemBins, path.Dir(program))
	_, known := interpreters[base(program)]
	file := l.script
	if file == "" && !ofSystem && !known {
		file = l.absolute(program)
	}
	for _, arg := range l.argv[1:] {
		if file != "" {
			break
		}
		if at := l.absolute(arg); at != "" && m.IsFile(at) && !slices.Contains(systemBins, path.Dir(at)) {
			file = at
		}
	}
	c.settle(m, l.cwd, file)
	if c.Dir == "" {
		return
	}
	first, ok := c.program(m, l, ofSystem, known)
	if !ok {
		return
	}
	words := append([]string{first}, c.arguments(m, l)...)
	rel, inside := within(c.Dir, file)
	if inside {
		c.Config.Main = rel
	}
	endings := interpreters[base(program)]
	switch {
	case inside && len(words) == 1 && file == l.absolute(program): // a program of its own, alone
		return
	case inside && len(words) == 2 && slices.Contains(endings, path.Ext(rel)): // berth starts it the same way
		return
	case inside && len(interpretersOf(rel)) == 0:
		c.Config.Main = "" // MAIN decides the language, and this file has none
	}
	for i := range words {
		words[i] = quote(words[i], l.expands)
	}
	c.setStart(strings.Join(words, " "))
}

// interpretersOf are those that start a file by its ending.
func interpretersOf(file string) (names []string) {
	for name, endings := range interpreters {
		if slices.Contains(endings, path.Ext(file)) {
			names = append(names, name)
		}
	}
	return names
}

// program is the first word of START.
func (c *Candidate) program(m Machine, l line, ofSystem, known bool) (string, bool) {
	program := l.argv[0]
	rel, inside := within(c.Dir, l.absolute(program))
	switch {
	case ofSystem:
		return path.Base(program), true
	case inside && known: // of a virtual environment, or of node_modules
		c.note("%s is in the directory: berth installs packages anew, and finds %s among them.", rel, path.Base(rel))
		return path.Base(program), true
	case inside && strings.Contains(rel, "node_modules/.bin/"), inside && m.IsFile(path.Join(c.Dir, path.Dir(path.Dir(rel)), "pyvenv.cfg")):
		c.note("%s is in the directory: berth installs packages anew, and finds %s among them.", rel, path.Base(rel))
		return path.Base(program), true
	case inside:
		return "./" + rel, true
	case known:
		c.note("It runs %s; berth runs the %s of this host, or the one that `berth runtime install` brings: VERSION= in discloud.config chooses.", program, base(program))
		return base(program), true
	}
	c.refuse("its program %s is outside of %s, and berth runs what is in the application's directory or of the system", program, c.Dir)
	return "", false
}

// arguments are the other words: absolute paths of the directory become relative, others are
// noted, and so are secrets and ports.
func (c *Candidate) arguments(m Machine, l line) []string {
	words := slices.Clone(l.argv[1:])
	for i, word := range words {
		option, value, has := strings.Cut(word, "=")
		if !has || !strings.HasPrefix(option, "-") {
			option, value = "", word
		}
		if path.IsAbs(value) {
			if rel, is := within(c.Dir, value); is {
				words[i] = strings.TrimPrefix(option+"="+rel, "=")
			} else {
				c.outside(value)
			}
		}
		if rel, is := within(c.Dir, l.absolute(word)); is && c.Dir != path.Clean(l.cwd) && m.IsFile(l.absolute(word)) {
			words[i] = rel
		}
	}
	c.scan(strings.Join(words, " "))
	return words
}

// outside notes a path that is not in the application.
func (c *Candidate) outside(file string) {
	if !slices.Contains(systemBins, path.Dir(file)) && !strings.HasPrefix(file, "/dev/") && !strings.HasPrefix(file, "/tmp/") {
		c.note("%s is outside of its directory: the application does not have it.", file)
	}
}

// shell takes over the text of sh -c, which START is too.
func (c *Candidate) shell(m Machine, l line) {
	text := strings.TrimSpace(l.argv[2])
	file := ""
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>()\"'`=", r) }) {
		at := l.absolute(word)
		if at == "" || slices.Contains(systemBins, path.Dir(at)) {
			continue
		}
		if file == "" && m.IsFile(at) {
			file = at
		}
		if _, in := within(orRoot(l.cwd), at); path.IsAbs(word) && !in {
			c.outside(word)
		}
	}
	c.settle(m, l.cwd, file)
	if regexp.MustCompile(`(^|[^&])&([^&]|$)`).MatchString(text) {
		c.note("Its shell starts more than one process: make each an application of its own, or they share RAM, log and end.")
	}
	if strings.Contains(text, "\n") {
		c.refuse("its shell command has several lines, and START is one: put them into a script of the directory")
	}
	if len(l.argv) > 3 {
		c.refuse("its shell command has arguments of its own, which START has not: put it into a script of the directory")
	}
	c.note("It is started by a shell: START is the text of its command.")
	c.scan(text)
	c.setStart(text)
}

// setStart sets START, which has a bound.
func (c *Candidate) setStart(text string) {
	switch {
	case len([]rune(text)) > maxStart:
		c.refuse("its command line is longer than the %d characters that START may have: put it into a script of the directory", maxStart)
	case strings.ContainsAny(text, "#\n\r"):
		c.refuse("its command line has a # or an end of line, which START= cannot have: put it into a script of the directory")
	default:
		c.Config.Start = text
	}
}

var (
	portArgument = regexp.MustCompile(`(?:^|\s)(?:-p|--?[a-z-]*port|--?(?:bind|listen|addr|address|host))[= ]\S*?([0-9]{2,5})(?:\s|$)`)
	secretOption = regexp.MustCompile(`(?i)(-{1,2}[a-z0-9_-]*(?:token|secret|passw|pwd|api-?key|apikey|credential|dsn)[a-z0-9_-]*)(=|\s+)("[^"]*"|'[^']*'|[^\s$"']\S*)`)
	secretURL    = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s@/]+@`)
	envFileFlag  = regexp.MustCompile(`--env-file(?:-if-exists)?[= ]`)
)

// scan notes what stands out in a command line.
func (c *Candidate) scan(text string) {
	if m := portArgument.FindStringSubmatch(text); m != nil {
		c.note("Its command line has the fixed port %s: berth's programs listen on $PORT, and no other port is reachable.", m[1])
	}
	if Hide(text) != text {
		c.note("Its command line seems to hold a secret, which is sent as part of discloud.config: better put it into a variable.")
	}
	if envFileFlag.MatchString(text) {
		c.note("It reads a file of variables by --env-file: berth sets its variables itself, and such a file is not sent.")
	}
}

// Hide is a command line with **** in the place of what looks like a secret.
func Hide(text string) string {
	return secretURL.ReplaceAllString(secretOption.ReplaceAllString(text, "$1$2****"), "$1:****@")
}

var (
	plainWord     = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
	wholeVariable = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)
	otherDollar   = regexp.MustCompile(`(^|[^\\])\$([^A-Za-z_{]|$)`) // which systemd leaves alone
)

// quote is a word for the shell. Where the source expands variables, so does the shell.
func quote(word string, expands bool) string {
	switch {
	case plainWord.MatchString(word):
		return word
	case expands && wholeVariable.MatchString(word):
		return word // which systemd splits into words as well
	case expands && strings.Contains(word, "$"):
		escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$$", `\$`).Replace(word)
		return `"` + otherDollar.ReplaceAllString(escaped, `$1\$$$2`) + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
