package diagnosis

import (
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"berth/app"
)

// rule is one mistake.
type rule struct {
	line   *regexp.Regexp
	before *regexp.Regexp // one of the lines just before must match too; nil for none
	after  *regexp.Regexp // likewise after
	why    func(f found) app.Text
	help   []Help
}

// found is what a rule has to say something of.
type found struct {
	m    []string // the match
	file string   // see Diagnosis
	at   int
}

// name is a group of the match, of a length that fits a sentence.
func (f found) name(group int) string {
	s := f.m[group]
	return strings.ToValidUTF8(s[:min(len(s), maxName)], "")
}

// first is the first group that matched something.
func (f found) first() string {
	for n := range f.m[1:] {
		if f.m[n+1] != "" {
			return f.name(n + 1)
		}
	}
	return ""
}

// rules are in order: the first that knows a line has it. The sentences name the files that
// docs/applications.md names.
var rules = []rule{
	// Packages.
	{
		line: regexp.MustCompile(`Cannot find (?:module|package) '([^'./\\][^'\\]*)'`),
		why: func(f found) app.Text {
			return app.Textf("The package %q is not installed. Add it to the dependencies in package.json, and deploy a new version.", npmPackage(f.name(1)))
		},
		help: []Help{Version, Files},
	},
	{
		line:  regexp.MustCompile(`Cannot find module '/[^']*?([^'/]{1,80})'$`),
		after: regexp.MustCompile(`requireStack: \[\]|Module\._resolveFilename`),
		why: func(f found) app.Text {
			return app.Textf("%q, which starts the application, is not there. Name the right one in MAIN of discloud.config, and deploy a new version.", f.name(1))
		},
		help: []Help{Version, Files},
	},
	{
		line: regexp.MustCompile(`Cannot find module '(\.[^']*|/[^']*)'`),
		why: func(f found) app.Text {
			return app.Textf("The program loads %q, and there is no such file. Capital and small letters differ here, unlike on Windows.", f.name(1))
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`^ModuleNotFoundError: No module named '([^']+)'`),
		why: func(f found) app.Text {
			return app.Textf("The package %q is not installed. Add it to requirements.txt, and deploy a new version.", pythonPackage(f.name(1)))
		},
		help: []Help{Version, Files},
	},
	{
		line: regexp.MustCompile(`^ImportError: cannot import name '([^']+)' from '([^']+)'`),
		why: func(f found) app.Text {
			return app.Textf("The version of %q that is installed has no %q. Name the version that the code was written for in requirements.txt, or another Python in VERSION of discloud.config.",
				f.name(2), f.name(1))
		},
		help: []Help{Version, Files},
	},
	{
		line: regexp.MustCompile(`Failed opening required '[^']*vendor/autoload\.php'`),
		why: func(found) app.Text {
			return app.Textf("The packages of composer.json are not installed. Send composer.json with the application, and deploy a new version.")
		},
		help: []Help{Version},
	},
	{
		line: regexp.MustCompile(`Uncaught Error: (?:Class "([^"]+)" not found|Call to undefined function ([\w\\]+)\(\))`),
		why: func(f found) app.Text {
			return app.Textf("PHP does not know %q. Check its spelling, the packages in composer.json, and whether this host has the extension that brings it.", f.first())
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`no required module provides package ([^\s;]+)`),
		why: func(f found) app.Text {
			return app.Textf("go.mod does not name the package %q. Run go mod tidy, and deploy a new version.", f.name(1))
		},
		help: []Help{Version},
	},
	{
		line: regexp.MustCompile(`^go: go\.mod file not found`),
		why: func(found) app.Text {
			return app.Textf("There is no go.mod. Run go mod init and go mod tidy, and deploy a new version.")
		},
		help: []Help{Version},
	},

	// Versions.
	{
		line: regexp.MustCompile(`NODE_MODULE_VERSION \d+\. This version of Node\.js requires|was compiled against a different Node\.js version`),
		why: func(found) app.Text {
			return app.Textf("A package was compiled for another version of Node.js. Leave node_modules out of the ZIP, and deploy a new version: berth installs the packages.")
		},
		help: []Help{Version},
	},
	{
		line: regexp.MustCompile(`UnsupportedClassVersionError: .*class file version (\d{2,3})\.\d+\).* up to (\d{2,3})\.\d`),
		why: func(f found) app.Text {
			return app.Textf("The program was compiled for Java %d, and Java %d runs it. Compile it with --release %d, or ask for a newer Java with VERSION in discloud.config.",
				javaOf(f.m[1]), javaOf(f.m[2]), javaOf(f.m[2]))
		},
		help: []Help{Version},
	},
	{
		line: regexp.MustCompile(`go\.mod requires go >= ([\d.]+) \(running go ([\d.]+)`),
		why: func(f found) app.Text {
			return app.Textf("go.mod asks for Go %s, and this host has Go %s. Lower the version in go.mod, or ask the owner of the host for a newer Go.", f.name(1), f.name(2))
		},
		help: []Help{Version, Files},
	},

	// Tokens and variables.
	{
		line: regexp.MustCompile(`\[TokenInvalid\]|\[TOKEN_INVALID\]|LoginFailure: |Improper token has been passed|An invalid token was provided|` +
			`telegram\.error\.InvalidToken|ETELEGRAM: (?:401|404)|TelegramUnauthorizedError|TokenValidationError`),
		why: func(found) app.Text {
			return app.Textf("The token of the bot is missing or wrong. Set the variable that the code reads it from, and restart the application.")
		},
		help: []Help{Variables, Files},
	},
	{
		line: regexp.MustCompile(`(?i)disallowed.intents|PrivilegedIntentsRequired|Privileged intent provided is not enabled`),
		why: func(found) app.Text {
			return app.Textf("The bot asks Discord for intents that are switched off. Switch on its Privileged Gateway Intents at discord.com/developers/applications, and start it again.")
		},
		help: []Help{Files},
	},
	{
		line:   regexp.MustCompile(`^KeyError: '(\w{1,80})'$`),
		before: regexp.MustCompile(`os\.environ|<frozen os>|/os\.py"`),
		why:    variableMissing,
		help:   []Help{Variables},
	},
	{
		line: regexp.MustCompile(`(?i:environment variable|env var|variable) ["'\x60]?([A-Z][A-Z0-9_]{2,79})\b.*(?i:not set|missing|required|undefined|not defined|not found|empty)` +
			`|(?:^|[\s:"'\x60])([A-Z][A-Z0-9]*_[A-Z0-9_]{1,70}|TOKEN|PREFIX|APIKEY)["'\x60]?(?i: environment variable| env var| variable)? (?i:is |was )?(?i:not set|missing|required|undefined|not defined|not found|empty|must be set|must be provided)` +
			`|(?i:missing|undefined)(?i: required)?(?i: environment variable| env var| variable)?:? ["'\x60]?([A-Z][A-Z0-9]*_[A-Z0-9_]{1,70}|TOKEN)\b`),
		why:  variableMissing,
		help: []Help{Variables},
	},

	// Ports.
	{
		line: regexp.MustCompile(`EADDRINUSE: address already in use .*?:(\d{1,5})(?:$|\s)|listen \w+ \S*:(\d{1,5}): bind: address already in use|` +
			`Failed to listen on \S*:(\d{1,5}) \(reason: Address already in use|(?i)(?:Errno 98\]|BindException|\bbind\b|AddrInUse).*address already in use`),
		why: func(f found) app.Text {
			if port := f.first(); port != "" {
				return app.Textf("Another program has the port %s. Listen on the port that is in the variable PORT.", port)
			}
			return app.Textf("Another program has the port. Listen on the port that is in the variable PORT.")
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`EACCES: permission denied \S*:(\d{1,4})(?:$|\s)|listen tcp \S*:(\d{1,4}): bind: permission denied`),
		why: func(f found) app.Text {
			return app.Textf("Programs may not listen on the port %s. Listen on the port that is in the variable PORT.", f.first())
		},
		help: []Help{Files, Version},
	},

	// What starts.
	{
		line: regexp.MustCompile(`can't open file '[^']*?([^'/]{1,80})': \[Errno 2\]|^Could not open input file: (\S{1,200})|^Error: Unable to access jarfile (\S{1,200})|^Error: Could not find or load main class (\S{1,200})`),
		why: func(f found) app.Text {
			return app.Textf("%q, which starts the application, is not there. Name the right one in MAIN of discloud.config, and deploy a new version.", f.first())
		},
		help: []Help{Version, Files},
	},
	{
		line: regexp.MustCompile(`^npm (?:error|ERR!) Missing script: "([^"]{1,80})"`),
		why: func(f found) app.Text {
			return app.Textf("package.json has no script %q. Add it there, or name the command in START of discloud.config, and deploy a new version.", f.name(1))
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`^no main manifest attribute, in (\S{1,200})`),
		why: func(f found) app.Text {
			return app.Textf("The manifest of %q does not name the class that starts it. Build the JAR with a Main-Class, and deploy a new version.", f.name(1))
		},
		help: []Help{Version},
	},
	{
		line: regexp.MustCompile(`^(?:/bin/)?(?:sh|bash|dash): (?:line )?\d+: ([^:\s]{1,200}): (?:not found|command not found|No such file or directory)|^exec: "([^"]{1,200})": executable file not found`),
		why: func(f found) app.Text {
			return app.Textf("There is no command %q. Add the package that brings it to the dependencies and deploy a new version, or ask the owner of the host to install it.", f.first())
		},
		help: []Help{Version, Files},
	},
	{
		line: regexp.MustCompile(`^(?:/bin/)?(?:sh|bash|dash): (?:line )?\d+: ([^:\s]{1,200}): Permission denied`),
		why: func(f found) app.Text {
			return app.Textf("The file %q may not be run. Start it with sh, or make it executable before you pack the ZIP.", f.name(1))
		},
		help: []Help{Version, Files},
	},
	{
		line: regexp.MustCompile(`([^:\s]{1,200}): (?:cannot execute binary file: )?[Ee]xec format error`),
		why: func(f found) app.Text {
			return app.Textf("%q was built for another system. Build it for linux/%s, and deploy a new version.", f.name(1), runtime.GOARCH)
		},
		help: []Help{Version},
	},

	// The code.
	{
		line: regexp.MustCompile(`SyntaxError: Cannot use import statement outside a module`),
		why: func(found) app.Text {
			return app.Textf("The code uses import, and Node.js takes the file for CommonJS. Write \"type\": \"module\" into package.json, and deploy a new version.")
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`require is not defined in ES module scope`),
		why: func(found) app.Text {
			return app.Textf("The code uses require, and package.json has \"type\": \"module\". Use import, or give the file the ending .cjs.")
		},
		help: []Help{Files, Version},
	},
	{
		line:  regexp.MustCompile(`^SyntaxError: .* in JSON at |^SyntaxError: .*\bJSON\b`),
		after: regexp.MustCompile(`at JSON\.parse|at parse \(`),
		why: func(found) app.Text {
			return app.Textf("The program cannot read its JSON, for it is not valid. A comma after the last entry, single quotes and comments are not allowed there.")
		},
		help: []Help{Files},
	},
	{
		line: regexp.MustCompile(`^(?:SyntaxError|IndentationError|TabError): |^PHP Parse error: |^Parse error: `),
		why: func(f found) app.Text {
			if f.at > 0 {
				return app.Textf("The file %q has a syntax error at line %d, or just before it.", f.file, f.at)
			}
			return app.Textf("The code has a syntax error.")
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`ENOENT: no such file or directory, (?:open|stat|scandir) '([^'/][^']*)'|^FileNotFoundError: \[Errno 2\] No such file or directory: '([^'/][^']*)'`),
		why: func(f found) app.Text {
			return app.Textf("The program opens %q, and there is no such file. Capital and small letters differ here, unlike on Windows.", f.first())
		},
		help: []Help{Files, Version},
	},
	{
		line: regexp.MustCompile(`(?:EACCES: permission denied|EROFS: read-only file system), \w+ '([^']+)'|(?:PermissionError: \[Errno 13\] Permission denied|OSError: \[Errno 30\] Read-only file system): '([^']+)'`),
		why: func(f found) app.Text {
			return app.Textf("The program may not use %q. It may write in its own directory.", f.first())
		},
		help: []Help{Files, Version},
	},

	// Memory that a runtime gave no more of.
	{
		line: regexp.MustCompile(`JavaScript heap out of memory|java\.lang\.OutOfMemoryError|^MemoryError\b|Allowed memory size of \d+ bytes exhausted`),
		why: func(found) app.Text {
			return app.Textf("The program needed more memory than its runtime gives it. Raise its RAM, or keep less in memory.")
		},
		help: []Help{RAM, Files},
	},
}

func variableMissing(f found) app.Text {
	return app.Textf("The variable %s is not set. Set it, and restart the application.", f.first())
}

// npmPackage is the package of a module: "@a/b" of "@a/b/c", "a" of "a/b".
func npmPackage(module string) string {
	parts := strings.SplitN(module, "/", 3)
	if strings.HasPrefix(module, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// pythonPackage is what PyPI calls the package of a module, where that is another name.
func pythonPackage(module string) string {
	module, _, _ = strings.Cut(module, ".")
	if own, ok := map[string]string{
		"discord": "discord.py", "telegram": "python-telegram-bot", "telebot": "pyTelegramBotAPI", "dotenv": "python-dotenv", "cv2": "opencv-python-headless",
		"PIL": "Pillow", "yaml": "PyYAML", "bs4": "beautifulsoup4", "sklearn": "scikit-learn", "MySQLdb": "mysqlclient", "psycopg2": "psycopg2-binary", "dateutil": "python-dateutil",
		"Crypto": "pycryptodome", "serial": "pyserial", "jwt": "PyJWT", "nacl": "PyNaCl", "googleapiclient": "google-api-python-client", "git": "GitPython",
	}[module]; ok {
		return own
	}
	return module
}

// javaOf is the version of Java of a version of class files: JVMS 4.1, table 4.1-A.
func javaOf(class string) int {
	n, _ := strconv.Atoi(class) // digits
	return n - 44
}
