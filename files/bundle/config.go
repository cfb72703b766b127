package bundle

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/app"
)

// maxConfig bounds the config file in bytes.
const maxConfig = 64 << 10

// comment is what the clients cut from every line.
var comment = regexp.MustCompile(`\s*#.*`)

// avatarComment leaves the fragment of a URL alone.
var avatarComment = regexp.MustCompile(`(^|\s+)#.*`)

// ParseConfig reads a discloud.config: lines KEY=value, split at the first
// '='; keys in any case; '#' and what follows is a comment, except inside an
// AVATAR. A key without a value is as one that is not there, except APT. Keys
// berth does not know are listed in Keys and mean nothing. What is wrong is
// app.Unusable and names the line and the key; a failing r is plain.
func ParseConfig(r io.Reader) (app.Config, error) {
	text, err := readConfig(r)
	if err != nil {
		return app.Config{}, err
	}
	cfg, broken := parseLines(text)
	if len(broken) > 0 {
		return app.Config{}, broken[0].error
	}
	return cfg, nil
}

// readConfig reads the text of a discloud.config.
func readConfig(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", ConfigName, err)
	}
	if len(data) > maxConfig {
		return "", app.Errorf(app.Unusable, "%s is larger than %d KB", ConfigName, maxConfig>>10)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return "", app.Errorf(app.Unusable, "%s is not UTF-8 text", ConfigName)
	}
	return string(data), nil
}

// brokenLine is a line that cannot be read.
type brokenLine struct {
	line  int      // counts from 1
	key   string   // in capitals; "" for a line without one
	want  app.Text // what is wrong with the value; zero for what is wrong with the line
	error          // which names the line too
}

// parseLines reads every line, and returns those that it cannot read.
func parseLines(text string) (cfg app.Config, broken []brokenLine) {
	seen := make(map[string]int)
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		b := parseLine(&cfg, seen, n, strings.TrimSuffix(line, "\r"))
		if b.line = n; b.error != nil {
			broken = append(broken, b)
		}
	}
	return cfg, broken
}

// FormatConfig writes the keys of cfg that have a value as a discloud.config, which
// ParseConfig reads as the same. What that could not, such as a '#', is app.Unusable.
func FormatConfig(cfg app.Config) (string, error) {
	var b strings.Builder
	for _, line := range []struct{ key, value string }{
		{"NAME", cfg.Name},
		{"TYPE", cfg.Type.String()},
		{"ID", cfg.ID},
		{"MAIN", cfg.Main},
		{"START", cfg.Start},
		{"BUILD", cfg.Build},
		{"RAM", strconv.FormatInt(int64(cfg.RAM), 10)},
		{"VERSION", cfg.Version},
		{"AUTORESTART", map[bool]string{true: "true"}[cfg.AutoRestart]},
	} {
		if line.value != "" && line.value != "0" {
			b.WriteString(line.key + "=" + line.value + "\n")
		}
	}
	read, err := ParseConfig(strings.NewReader(b.String()))
	if err != nil {
		return "", err
	}
	for _, is := range []struct{ key, want, got string }{
		{"NAME", cfg.Name, read.Name}, {"ID", cfg.ID, read.ID}, {"MAIN", cfg.Main, read.Main}, {"START", cfg.Start, read.Start}, {"BUILD", cfg.Build, read.Build},
	} {
		if is.got != is.want {
			return "", app.Errorf(app.Unusable, "%s=%s cannot stand in %s, where # begins a comment", is.key, quote(is.want), ConfigName)
		}
	}
	return b.String(), nil
}

// uncomment is a line without its comment.
func uncomment(line string) string {
	key, value, ok := strings.Cut(line, "=")
	switch {
	case !strings.EqualFold(strings.TrimSpace(key), "AVATAR"):
		line = comment.ReplaceAllString(line, "")
	case ok: // a value that is nothing but a comment starts right after the '='
		line = key + "=" + avatarComment.ReplaceAllString(value, "")
	}
	return strings.TrimSpace(line)
}

// parseLine takes one line into cfg.
func parseLine(cfg *app.Config, seen map[string]int, n int, line string) brokenLine {
	line = uncomment(line)
	if line == "" {
		return brokenLine{}
	}
	key, value, ok := strings.Cut(line, "=")
	key, value = strings.ToUpper(strings.TrimSpace(key)), strings.TrimSpace(value)
	if !ok || key == "" {
		return brokenLine{error: app.Errorf(app.Unusable, "%s line %d: %s: must be KEY=value", ConfigName, n, quote(line))}
	}
	if i := strings.IndexFunc(line, isControl); i >= 0 {
		return lineError(n, key, value, app.Textf("must not hold control characters"))
	}
	if first, ok := seen[key]; ok {
		return lineError(n, key, value, app.Textf("is set already in line %d", first))
	}
	seen[key] = n
	if value == "" && key != "APT" { // no packages are a wish, too
		return brokenLine{} // clients write and accept what nobody filled in
	}
	cfg.Keys, cfg.Lines = append(cfg.Keys, key), append(cfg.Lines, n)
	if set, ok := setters[key]; ok {
		if want := set(cfg, value); !want.IsZero() {
			return lineError(n, key, value, want)
		}
	}
	return brokenLine{}
}

// lineError makes the error of one line.
func lineError(n int, key, value string, want app.Text) brokenLine {
	of := key
	if utf8.RuneCountInString(key) > maxQuoted || slices.ContainsFunc([]rune(key), unicode.IsControl) {
		key = quote(key)
	}
	return brokenLine{n, of, want, app.Errorf(app.Unusable, "%s line %d: %s=%s: %s", ConfigName, n, key, quote(value), want)}
}

// isControl allows the tab, which editors put between words.
func isControl(r rune) bool { return r != '\t' && unicode.IsControl(r) }

// maxCommand is how many characters START and BUILD may have.
const maxCommand = 1000

var version = regexp.MustCompile(`^(current|latest|lts|suja|legacy|\d+(\.(\d+|x)){0,2})$`)

// setters hold what each known key does with its value, which is not empty. They
// return what the value must be when it is not, no text otherwise.
var setters = map[string]func(cfg *app.Config, value string) (want app.Text){
	"MAIN":        setMain,
	"TYPE":        setType,
	"RAM":         setRAM,
	"VERSION":     setVersion,
	"NAME":        setName,
	"AVATAR":      setAvatar,
	"ID":          func(cfg *app.Config, v string) app.Text { cfg.ID = v; return app.Text{} },
	"START":       func(cfg *app.Config, v string) app.Text { return setCommand(&cfg.Start, v) },
	"BUILD":       func(cfg *app.Config, v string) app.Text { return setCommand(&cfg.Build, v) },
	"AUTORESTART": func(cfg *app.Config, v string) app.Text { return setSwitch(&cfg.AutoRestart, v) },
	"APT":         setAPT,
	"HEALTH":      setHealth,

	"MEMORY_SIGNAL": setMemorySignal,
	"STDIN":         func(cfg *app.Config, v string) app.Text { return setSwitch(&cfg.Stdin, v) },
}

func setMain(cfg *app.Config, v string) app.Text {
	v = strings.ReplaceAll(v, `\`, "/") // as Windows writes it
	if strings.HasSuffix(v, "/") || !filepath.IsLocal(v) ||
		slices.Contains(strings.Split(v, "/"), "..") || path.Clean(v) == "." {
		return app.Textf("must be the path of a file in the ZIP, such as src/index.js")
	}
	cfg.Main = path.Clean(v)
	return app.Text{}
}

func setType(cfg *app.Config, v string) app.Text {
	switch strings.ToLower(v) {
	case app.Bot.String():
		cfg.Type = app.Bot
	case app.Site.String():
		cfg.Type = app.Site
	default:
		return app.Textf("must be bot or site")
	}
	return app.Text{}
}

func setRAM(cfg *app.Config, v string) app.Text {
	mb, ok := app.ParseMB(v)
	if !ok || mb < 1 || mb > math.MaxInt32 {
		return app.Textf("must be an amount such as 512, 512MB or 1.5GB")
	}
	cfg.RAM = mb
	return app.Text{}
}

func setVersion(cfg *app.Config, v string) app.Text {
	v = strings.ToLower(v)
	if !version.MatchString(v) {
		return app.Textf("must be latest, current, lts, legacy, suja or a version such as 20.x.x")
	}
	cfg.Version = v
	return app.Text{}
}

func setName(cfg *app.Config, v string) app.Text {
	if utf8.RuneCountInString(v) > app.MaxName {
		return app.Textf("must have 1 to 30 characters")
	}
	if !app.ValidName(v) {
		return app.Textf("must have no tab, and no character that turns the text behind it around")
	}
	cfg.Name = v
	return app.Text{}
}

func setAvatar(cfg *app.Config, v string) app.Text {
	if !app.ValidAvatar(v) {
		return app.Textf("must be an http or https address of at most 512 characters, without a password")
	}
	cfg.AvatarURL = v
	return app.Text{}
}

func setCommand(to *string, v string) app.Text {
	if utf8.RuneCountInString(v) > maxCommand {
		return app.Textf("must be one command of at most 1000 characters")
	}
	*to = v
	return app.Text{}
}

func setSwitch(to *bool, v string) app.Text {
	switch strings.ToLower(v) {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return app.Textf("must be true or false")
	}
	return app.Text{}
}

func setAPT(cfg *app.Config, v string) app.Text {
	for group := range strings.SplitSeq(v, ",") {
		if group = strings.TrimSpace(group); group != "" {
			cfg.APT = append(cfg.APT, group)
		}
	}
	return app.Text{}
}

// maxHealth is how long a path to ask for may be.
const maxHealth = 200

func setHealth(cfg *app.Config, v string) app.Text {
	if strings.EqualFold(v, app.HealthOff) {
		cfg.Health = app.HealthOff
		return app.Text{}
	}
	u, err := url.ParseRequestURI(v)
	if err != nil || v[0] != '/' || strings.HasPrefix(v, "//") || len(v) > maxHealth || u.Host != "" || strings.ContainsAny(v, " \t\\") {
		return app.Textf("must be off, or a path of at most 200 characters such as /health")
	}
	cfg.Health = v
	return app.Text{}
}

func setMemorySignal(cfg *app.Config, v string) app.Text {
	v = strings.ToUpper(v)
	if !strings.HasPrefix(v, "SIG") {
		v = "SIG" + v
	}
	if !slices.Contains(app.MemorySignals, v) {
		return app.Textf("must be SIGUSR1, SIGUSR2, SIGURG or SIGWINCH: another signal would end or stop the program")
	}
	cfg.MemorySignal = v
	return app.Text{}
}
