package bundle

import (
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/app"
)

// The bounds of the config's texts, in characters.
const (
	maxAppName = 30
	maxAvatar  = 512
	maxCommand = 1000
)

var version = regexp.MustCompile(`^(current|latest|lts|suja|legacy|\d+(\.(\d+|x)){0,2})$`)

// setters hold what each known key does with its value, which is not empty. They
// return what the value must be when it is not, "" otherwise.
var setters = map[string]func(cfg *app.Config, value string) (want string){
	"MAIN":        setMain,
	"TYPE":        setType,
	"RAM":         setRAM,
	"VERSION":     setVersion,
	"NAME":        setName,
	"AVATAR":      setAvatar,
	"ID":          func(cfg *app.Config, v string) string { cfg.ID = v; return "" },
	"START":       func(cfg *app.Config, v string) string { return setCommand(&cfg.Start, v) },
	"BUILD":       func(cfg *app.Config, v string) string { return setCommand(&cfg.Build, v) },
	"AUTORESTART": setAutoRestart,
	"APT":         setAPT,
	"HEALTH":      setHealth,
}

func setMain(cfg *app.Config, v string) string {
	if strings.HasSuffix(v, "/") || strings.Contains(v, `\`) || !filepath.IsLocal(v) ||
		slices.Contains(strings.Split(v, "/"), "..") || path.Clean(v) == "." {
		return "must be the path of a file in the ZIP, such as src/index.js"
	}
	cfg.Main = path.Clean(v)
	return ""
}

func setType(cfg *app.Config, v string) string {
	switch strings.ToLower(v) {
	case app.Bot.String():
		cfg.Type = app.Bot
	case app.Site.String():
		cfg.Type = app.Site
	default:
		return "must be bot or site"
	}
	return ""
}

func setRAM(cfg *app.Config, v string) string {
	// 31 bits keep the number of bytes within an int64; ParseUint takes no sign.
	mb, err := strconv.ParseUint(v, 10, 31)
	if err != nil || mb < 1 {
		return "must be a whole number of MB"
	}
	cfg.RAM = app.MB(mb)
	return ""
}

func setVersion(cfg *app.Config, v string) string {
	v = strings.ToLower(v)
	if !version.MatchString(v) {
		return "must be latest, current, lts, legacy, suja or a version such as 20.x.x"
	}
	cfg.Version = v
	return ""
}

func setName(cfg *app.Config, v string) string {
	if utf8.RuneCountInString(v) > maxAppName {
		return "must have 1 to 30 characters"
	}
	cfg.Name = v
	return ""
}

func setAvatar(cfg *app.Config, v string) string {
	u, err := url.Parse(v)
	isWeb := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	if !isWeb || utf8.RuneCountInString(v) > maxAvatar {
		return "must be an http or https address of at most 512 characters"
	}
	cfg.AvatarURL = v
	return ""
}

func setCommand(to *string, v string) string {
	if utf8.RuneCountInString(v) > maxCommand {
		return "must be one command of at most 1000 characters"
	}
	*to = v
	return ""
}

func setAutoRestart(cfg *app.Config, v string) string {
	switch strings.ToLower(v) {
	case "true":
		cfg.AutoRestart = true
	case "false":
		cfg.AutoRestart = false
	default:
		return "must be true or false"
	}
	return ""
}

func setAPT(cfg *app.Config, v string) string {
	for group := range strings.SplitSeq(v, ",") {
		if group = strings.TrimSpace(group); group != "" {
			cfg.APT = append(cfg.APT, group)
		}
	}
	return ""
}

// maxHealth is how long a path to ask for may be.
const maxHealth = 200

func setHealth(cfg *app.Config, v string) string {
	const want = "must be off, or a path of at most 200 characters such as /health"
	if strings.EqualFold(v, app.HealthOff) {
		cfg.Health = app.HealthOff
		return ""
	}
	u, err := url.ParseRequestURI(v)
	if err != nil || v[0] != '/' || strings.HasPrefix(v, "//") || len(v) > maxHealth || u.Host != "" || strings.ContainsAny(v, " \t\\") {
		return want
	}
	cfg.Health = v
	return ""
}
