package importer

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth/app"
)

// Unit is a service of systemd as it is described in files.
type Unit struct {
	Name    string   // such as bot.service or bot@one.service
	Text    []byte   // of the file, or of the template
	DropIns [][]byte // of NAME.d/*.conf, in their order
	User    bool     // of a user's own manager
	Owner   string   // whose manager that is; "" for the caller's
	Timers  []string // units beside it that start it, such as bot.timer
}

// Service reads a unit of type service. What is wrong with it is in the Candidate.
func Service(u Unit, m Machine) Candidate {
	c := Candidate{From: u.Name, Unit: u.Name, User: u.User, Stop: "systemctl disable --now " + quote(u.Name, false)}
	if u.User {
		c.Stop = "systemctl --user disable --now " + quote(u.Name, false)
	}
	c.Config.Name = nameOf(strings.TrimSuffix(u.Name, ".service"))
	file := unitFile{}
	for _, text := range append([][]byte{u.Text}, u.DropIns...) {
		file.parse(string(text))
	}
	s := service{Unit: u, file: file, m: m, c: &c}
	s.refusals()
	s.settings()
	s.environment()
	s.command()
	return c
}

// service is a unit while it is read.
type service struct {
	Unit
	file unitFile
	m    Machine
	c    *Candidate
}

// refusals finds what berth cannot run at all.
func (s *service) refusals() {
	kind := strings.ToLower(s.file.last("Type"))
	switch {
	case strings.Contains(s.Name, "@.service"):
		s.c.refuse("it is a template: name an instance of it, such as %s", strings.Replace(s.Name, "@.", "@one.", 1))
	case s.Name == "berth.service" || s.Name == "berth-apps.service":
		s.c.refuse("it is berth itself")
	case kind == "oneshot":
		s.c.refuse("it is of type oneshot, which ends; berth keeps programs running, and starts none at set times")
	case kind == "forking":
		s.c.refuse("it is of type forking: berth follows the process that it starts; most programs have an option to stay in the foreground")
	case kind == "dbus":
		s.c.refuse("it is of type dbus, and berth's programs reach no message bus")
	}
	if strings.Contains(strings.Join(s.file["Service.ExecStart"], " "), "pm2 resurrect") {
		s.c.refuse("it is PM2: berth import pm2 takes over what PM2 runs")
	}
	for _, key := range []string{"RootDirectory", "RootImage", "Sockets", "PAMName", "TTYPath"} {
		if s.file.last(key) != "" {
			s.c.refuse("it needs %s=, which berth does not have", key)
		}
	}
	for _, timer := range s.Timers {
		s.c.note("%s starts it too; berth starts programs at no set times and for no socket.", timer)
	}
}

// settings takes over RAM and restarts, and says what of the rest berth does not have.
func (s *service) settings() {
	f := s.file
	restart := strings.ToLower(f.last("Restart"))
	s.c.Config.AutoRestart = restart != "" && restart != "no"
	for _, key := range []string{"MemoryMax", "MemoryLimit", "MemoryHigh"} {
		value := f.last(key)
		if value == "" || strings.EqualFold(value, "infinity") {
			continue
		}
		if n, ok := bytesOf(value); ok {
			s.c.Config.RAM, s.c.RAMFrom = megabytes(n), key+"="
			break
		}
		s.c.note("%s=%s is no amount that berth knows.", key, value)
	}
	for _, each := range []struct{ says, keys string }{
		{"%s is not run: put what it does before the start into START, or into BUILD.", "ExecStartPre ExecCondition"},
		{"%s is not run.", "ExecStartPost ExecStop ExecStopPost ExecReload"},
		{"%s is not taken over: the application has its own directory alone; copy what the program needs into it.", "StateDirectory CacheDirectory LogsDirectory RuntimeDirectory ConfigurationDirectory BindPaths BindReadOnlyPaths ReadWritePaths"},
		{"%s is not taken over: set a variable for it.", "LoadCredential LoadCredentialEncrypted SetCredential PassEnvironment"},
		{"%s is not taken over: berth's programs have no capability, and cannot listen on ports below 1024.", "AmbientCapabilities"},
		{"%s is not taken over: HEALTH= in discloud.config is berth's way to find a program that hangs.", "WatchdogSec"},
		{"%s is not taken over: berth ends programs with SIGTERM.", "KillSignal"},
	} {
		for _, key := range strings.Fields(each.keys) {
			if f.last(key) != "" {
				s.c.note(each.says, key+"=")
			}
		}
	}
	if strings.HasPrefix(strings.ToLower(f.last("Type")), "notify") {
		s.c.note("It tells systemd when it is ready (Type=notify); berth waits for its port, or a few seconds.")
	}
	for _, key := range []string{"Unit.Requires", "Unit.BindsTo", "Unit.Wants", "Unit.After"} {
		for _, name := range strings.Fields(strings.Join(f[key], " ")) {
			if strings.HasSuffix(name, ".service") && !strings.HasPrefix(name, "systemd-") && !slices.Contains([]string{"dbus.service", "NetworkManager.service", s.Name}, name) {
				s.c.note("It needs %s, which stays as it is: whether the application reaches it depends on its address.", name)
			}
		}
	}
}

// bytesOf is an amount of memory as systemd has it: bytes, or with K, M, G or T.
func bytesOf(text string) (int64, bool) {
	shift := 0
	if i := strings.IndexAny(strings.ToUpper(text), "KMGT"); i > 0 && i == len(text)-1 {
		shift = map[byte]int{'K': 10, 'M': 20, 'G': 30, 'T': 40}[strings.ToUpper(text)[i]]
		text = text[:i]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n << shift, err == nil && n > 0 && n < 1<<(50-shift)
}

// environment takes over Environment= and EnvironmentFile=, of which the later one wins, and
// the files win over the lines, as in systemd.
func (s *service) environment() {
	all := map[string]string{}
	for _, line := range s.file["Service.Environment"] {
		words, err := split(line)
		if err != nil {
			s.c.note("A line Environment= is not taken over: %v.", err)
		}
		for _, word := range words {
			if name, value, is := strings.Cut(word, "="); is {
				all[name] = s.specified(value)
			}
		}
	}
	for _, file := range s.file["Service.EnvironmentFile"] {
		file, optional := strings.CutPrefix(file, "-")
		file = s.specified(file)
		text, err := s.m.ReadFile(file, MaxUnit)
		if err != nil && !optional {
			s.c.note("The variables of %s are not taken over: it cannot be read.", file)
		}
		for name, value := range variables(string(text)) {
			all[name] = value
		}
	}
	for _, line := range s.file["Service.UnsetEnvironment"] {
		for _, word := range strings.Fields(line) {
			name, _, _ := strings.Cut(word, "=")
			delete(all, name)
		}
	}
	s.c.take(all)
}

// command takes over ExecStart= and WorkingDirectory=.
func (s *service) command() {
	commands := s.file["Service.ExecStart"]
	if len(commands) == 0 {
		s.c.refuse("it has no ExecStart=")
		return
	}
	text := strings.TrimLeft(commands[0], "@-:+! ")
	mark := commands[0][:len(commands[0])-len(text)]
	argv, err := split(text)
	switch {
	case err != nil:
		s.c.refuse("its ExecStart= cannot be read: %v", err)
		return
	case len(commands) > 1 || slices.Contains(argv, ";"):
		s.c.refuse("it runs more than one command: make each an application of its own")
		return
	case strings.Contains(mark, "@") && len(argv) > 1:
		argv = slices.Delete(argv, 1, 2) // its name for itself
	}
	if strings.Contains(mark, "+") || strings.Contains(mark, "!") {
		s.c.note("It starts with privileges that berth's programs do not have.")
	}
	for i := range argv {
		argv[i] = s.specified(argv[i])
	}
	cwd := s.specified(strings.TrimPrefix(s.file.last("WorkingDirectory"), "-"))
	if cwd == "~" {
		cwd = s.m.Home(s.file.last("User"))
	}
	if cwd == "" && s.User {
		cwd = s.m.Home(s.Owner)
	}
	if s.c.Refusal == "" {
		s.c.start(s.m, line{cwd: cwd, argv: argv, expands: !strings.Contains(mark, ":")})
	}
}

// specified puts in what specifiers stand for: the names of the unit and the user, and the
// directories of the system. One that is not known stays, with a note.
func (s *service) specified(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	bare := strings.TrimSuffix(s.Name, ".service")
	prefix, instance, _ := strings.Cut(bare, "@")
	home := "/root"
	if s.User {
		home = s.m.Home(s.Owner)
	}
	known := map[byte]string{
		'%': "%", 'n': s.Name, 'N': bare, 'p': prefix, 'i': instance, 'I': unescaped(instance), 'j': prefix[strings.LastIndexByte(prefix, '-')+1:], 'h': home,
		'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 't': "/run", 'E': "/etc", 'T': "/tmp", 'V': "/var/tmp",
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		value, is := known[text[i]]
		if !is || value == "" && text[i] == 'h' {
			s.c.note("The specifier %%%s is not taken over: write what it stands for.", strings.ToValidUTF8(text[i:i+1], "?"))
			value = "%" + text[i:i+1]
		}
		b.WriteString(value)
	}
	return b.String()
}

// unescaped is the name of an instance as it was before systemd-escape.
func unescaped(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '-':
			b.WriteByte('/')
		case strings.HasPrefix(name[i:], `\x`) && i+4 <= len(name):
			if n, err := strconv.ParseUint(name[i+2:i+4], 16, 8); err == nil && n > 0 {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
			b.WriteByte(name[i])
		default:
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// OtherUnit is a unit that is no service, with the reason why it becomes no application; ok is
// false for one that nobody would take for a program.
func OtherUnit(name string) (c Candidate, ok bool) {
	kind := strings.TrimPrefix(path.Ext(name), ".")
	if !slices.Contains([]string{"timer", "socket", "path"}, kind) {
		return Candidate{}, false
	}
	c = Candidate{From: name, Config: app.Config{Name: nameOf(strings.TrimSuffix(name, "."+kind))}}
	c.Refusal = fmt.Sprintf("it is a unit of type %s: berth keeps programs running, and starts none at set times, for a socket or for a file", kind)
	return c, true
}
