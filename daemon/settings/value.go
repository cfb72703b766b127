package settings

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/app"
	"berth/daemon/release"
	"berth/host/domain"
	"berth/proc/sandbox"
	"berth/web/certs"
)

// kind is the type of a value, and where values go.
type kind struct {
	set     func(text string) bool // false, and nothing is set, when the text is no such value
	expects string                 // completes "expected ..."
	words   []string               // all that there are, of a choice
	toggle  bool                   // true or false
	panel   bool                   // an administrator may change it in the panel
}

// kindOf is that of what parse makes of a text.
func kindOf[T any](to *T, expects string, parse func(text string) (T, bool)) kind {
	return kind{expects: expects, set: func(text string) bool {
		v, ok := parse(text)
		if ok {
			*to = v
		}
		return ok
	}}
}

// inPanel marks a setting that an administrator may change in the panel, where a session may be somebody
// else's: none with a path, a command, an address or a list of what is allowed.
func inPanel(k kind) kind {
	k.panel = true
	return k
}

// checked is the kind of a text that is kept as it is, if ok says so.
func checked(to *string, expects string, ok func(text string) bool) kind {
	return kindOf(to, expects, func(text string) (string, bool) { return text, ok(text) })
}

// whole is a whole number within bounds.
func whole[T ~int | ~int64](to *T, least, most int64) kind {
	return kindOf(to, fmt.Sprintf("a whole number from %d to %d", least, most), func(text string) (T, bool) {
		v, err := strconv.ParseInt(text, 10, 64)
		return T(v), err == nil && v >= least && v <= most
	})
}

// size is an amount of memory or disk within bounds, which are in MB.
func size(to *app.MB, least, most int64) kind {
	return kindOf(to, fmt.Sprintf(`a size from %d to %d MB such as 512, "512MB" or "1.5GB"`, least, most), func(text string) (app.MB, bool) {
		v, ok := app.ParseMB(text)
		return v, ok && int64(v) >= least && int64(v) <= most
	})
}

// amount is a size, or auto, which is -1.
func amount(to *app.MB, least, most int64) kind {
	number := size(to, least, most)
	return kind{expects: number.expects + `, or "auto"`, set: func(text string) bool {
		if text == "auto" {
			*to = -1
			return true
		}
		return number.set(text)
	}}
}

// ratio is a number within bounds.
func ratio(to *float64, least, most float64) kind {
	return kindOf(to, fmt.Sprintf("a number from %g to %g", least, most), func(text string) (float64, bool) {
		v, err := strconv.ParseFloat(text, 64)
		return v, err == nil && v >= least && v <= most // no comparison holds for NaN
	})
}

// toggle is true or false.
func toggle(to *bool) kind {
	k := kindOf(to, "true or false", func(text string) (bool, bool) { return text == "true", text == "true" || text == "false" })
	k.toggle = true
	return k
}

// span is a duration above zero, with its unit: nobody knows whether an audit log of
// 90 is one of seconds or of days.
func span(to *time.Duration) kind {
	return kindOf(to, `a time above zero with its unit, such as "10m", "1h" or "7d"`, parseSpan)
}

// seconds is a duration above zero; a number alone is one of seconds.
func seconds(to *time.Duration) kind {
	return kindOf(to, `a time above zero such as 10 (seconds), "10s", "5m" or "1h"`, func(text string) (time.Duration, bool) {
		if _, err := strconv.ParseUint(text, 10, 31); err == nil {
			text += "s"
		}
		return parseSpan(text)
	})
}

// parseSpan parses a duration above zero; whole days are those of 24 hours.
func parseSpan(text string) (time.Duration, bool) {
	if number, found := strings.CutSuffix(text, "d"); found {
		days, err := strconv.ParseUint(number, 10, 16)
		return time.Duration(days) * 24 * time.Hour, err == nil && days > 0
	}
	v, err := time.ParseDuration(text)
	return v, err == nil && v > 0
}

// choice is one of some words.
func choice(to *string, words ...string) kind {
	k := checked(to, "one of "+strings.Join(words, ", "), func(text string) bool { return slices.Contains(words, text) })
	k.words = words
	return k
}

// hostPort is where to listen; an empty host means every address, and port 0
// one that the system chooses.
func hostPort(to *string) kind {
	return checked(to, `HOST:PORT such as "127.0.0.1:8400"`, func(text string) bool {
		_, _, ok := splitHostPort(text)
		return ok
	})
}

// server is empty or where a server listens.
func server(to *string) kind {
	return checked(to, `HOST:PORT such as "192.0.2.53:53"`, func(text string) bool {
		host, port, ok := splitHostPort(text)
		return text == "" || ok && host != "" && port != 0
	})
}

func splitHostPort(text string) (host string, port uint64, ok bool) {
	host, number, err := net.SplitHostPort(text)
	port, bad := strconv.ParseUint(number, 10, 16)
	return host, port, err == nil && bad == nil && !strings.ContainsAny(host, "/ \t@")
}

// webAddress is empty or the start of an address on the web.
func webAddress(to *string) kind {
	return kindOf(to, `an address such as "https://apps.example.org"`, func(text string) (string, bool) {
		u, err := url.Parse(text)
		web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
			u.User == nil && u.RawQuery == "" && u.Fragment == ""
		return strings.TrimRight(text, "/"), text == "" || web
	})
}

// acmeDirectory is the address of a directory, or a name for one.
func acmeDirectory(to *string) kind {
	expects := `letsencrypt, staging, or an address such as "https://ca.example.org/acme/directory"`
	return kindOf(to, expects, func(text string) (string, bool) {
		switch text {
		case "letsencrypt":
			text = certs.LetsEncrypt
		case "staging":
			text = certs.Staging
		}
		u, err := url.Parse(text)
		return text, err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.Fragment == ""
	})
}

// issuer is empty or the address of an OpenID provider, to the letter.
func issuer(to *string) kind {
	return checked(to, `an address such as "https://id.example.org"`, func(text string) bool {
		u, err := url.Parse(text)
		return text == "" || err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	})
}

// plainText is a short text without control characters.
func plainText(to *string) kind {
	return checked(to, "a text of 200 characters at most", func(text string) bool {
		return len(text) <= 200 && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
	})
}

// downloads is empty or where files are that berth downloads.
func downloads(to *string) kind {
	return checked(to, `an address such as "https://example.org/berth"`, func(text string) bool { return text == "" || release.CheckBase(text) == nil })
}

// releaseKey is empty or the public key that signs releases.
func releaseKey(to *string) kind {
	return checked(to, "a public key of minisign's, which begins with RW and has 56 characters", func(text string) bool {
		return text == "" || release.CheckKey(text) == nil
	})
}

// mailAddress is empty or an address alone.
func mailAddress(to *string) kind {
	return checked(to, `an address such as "ana@example.org"`, func(text string) bool {
		if text == "" {
			return true
		}
		a, err := mail.ParseAddress(text)
		return err == nil && a.Name == "" && a.Address == text && !strings.ContainsAny(text, "\"?, ")
	})
}

// directory is a path; a relative one starts at the working directory.
func directory(to *string) kind { return kindOf(to, "the path of a directory", absolute) }

// file is empty or a path; a relative one starts at the working directory.
func file(to *string) kind {
	return kindOf(to, "a path", func(text string) (string, bool) {
		if text == "" {
			return "", true
		}
		return absolute(text)
	})
}

func absolute(text string) (string, bool) {
	path, err := filepath.Abs(text)
	return path, text != "" && !strings.Contains(text, "\x00") && err == nil
}

// domainName is empty or a domain, as it is kept.
func domainName(to *string) kind {
	return kindOf(to, `a domain such as "apps.example.org"`, func(text string) (string, bool) {
		if text == "" {
			return "", true
		}
		name, err := domain.CheckDomain(text, nil)
		return name, err == nil
	})
}

// list is the kind of several values with commas between them, kept as they are written.
func list[T any](to *string, expects string, parse func(text string) ([]T, bool)) kind {
	return checked(to, expects, func(text string) bool {
		_, ok := parse(text)
		return ok
	})
}

// parseList parses what stands between commas; there is nothing in an empty text.
func parseList[T any](text string, parse func(part string) (T, bool)) (all []T, ok bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		v, ok := parse(strings.TrimSpace(part))
		if !ok {
			return nil, false
		}
		all = append(all, v)
	}
	return all, true
}

// addresses is empty or some IP addresses, at which others can reach this host.
func addresses(to *string) kind {
	return list(to, `IP addresses with commas between them, such as "192.0.2.1,2001:db8::1"`, parseAddresses)
}

func parseAddresses(text string) ([]netip.Addr, bool) {
	return parseList(text, func(part string) (netip.Addr, bool) {
		a, err := netip.ParseAddr(part)
		return a.Unmap(), err == nil && a.Zone() == "" && !a.IsUnspecified()
	})
}

// endpoints is empty or some addresses, each with a port.
func endpoints(to *string) kind {
	return list(to, `addresses with a port and commas between them, such as "127.0.0.1:8080,[fd00::1]:443"`, parseEndpoints)
}

func parseEndpoints(text string) ([]netip.AddrPort, bool) {
	return parseList(text, func(part string) (netip.AddrPort, bool) {
		at, err := netip.ParseAddrPort(part)
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), err == nil && at.Port() != 0 && at.Addr().Zone() == "" && !at.Addr().IsUnspecified()
	})
}

// networks is empty or some addresses and networks.
func networks(to *string) kind {
	return list(to, `addresses or networks with commas between them, such as "192.168.0.0/16,fd00::/8"`, func(text string) ([]sandbox.Rule, bool) {
		rules, ok := parseRules(text)
		return rules, ok && !slices.ContainsFunc(rules, func(r sandbox.Rule) bool { return r.Port != 0 })
	})
}

// networksWithPorts is the same, and addresses may have a port.
func networksWithPorts(to *string) kind {
	return list(to, `addresses, addresses with a port, or networks with commas between them, such as "127.0.0.1:5432,[::1]:5432,10.0.0.0/8"`, parseRules)
}

func parseRules(text string) ([]sandbox.Rule, bool) {
	return parseList(text, func(part string) (sandbox.Rule, bool) {
		r, err := sandbox.ParseRule(part)
		return r, err == nil
	})
}

// allLayers are the walls that can be required, or done without.
var allLayers = append(slices.Clone(sandbox.Layers), sandbox.Reach, sandbox.Counted)

// layers are names of walls around programs, or all.
func layers(to *string) kind {
	var names []string
	for _, l := range allLayers {
		names = append(names, string(l))
	}
	return list(to, "all, or some of "+strings.Join(names, ", ")+", with commas between them", parseLayers)
}

func parseLayers(text string) ([]sandbox.Layer, bool) {
	if strings.TrimSpace(text) == "all" {
		return allLayers, true
	}
	return parseList(withoutBlanks(text), func(part string) (sandbox.Layer, bool) {
		return sandbox.Layer(part), slices.Contains(allLayers, sandbox.Layer(part))
	})
}

// paths are absolute paths that can be shown to programs: none in whose place they have
// something of their own.
func paths(to *string) kind {
	return list(to, `absolute paths such as "/opt,/srv/models", none of them /, /etc, /var or below /dev, /proc, /sys, /tmp, /var/tmp or /usr`, parsePaths)
}

func parsePaths(text string) ([]string, bool) {
	return parseList(withoutBlanks(text), func(path string) (string, bool) {
		path = filepath.Clean(path)
		own := slices.ContainsFunc([]string{"/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/usr"}, func(own string) bool {
			return path == own || strings.HasPrefix(path, own+"/")
		})
		return path, !own && filepath.IsAbs(path) && !strings.Contains(path, "\x00") && !slices.Contains([]string{"/", "/etc", "/var"}, path)
	})
}

// withoutBlanks is a list without the parts that hold nothing.
func withoutBlanks(text string) string {
	blank := func(part string) bool { return strings.TrimSpace(part) == "" }
	return strings.Join(slices.DeleteFunc(strings.Split(text, ","), blank), ",")
}

// SetToggle sets what a person wrote as true or false, and reports whether it was.
func SetToggle(to *bool, text string) bool { return toggle(to).set(text) }

// Value is a flag of a command, which refuses what is not of its kind.
type Value struct {
	kind
	text  string // as it was given, or the default
	given bool
}

// Whole is the flag of a whole number from least to most.
func Whole[T ~int | ~int64](to *T, least, most int64) *Value {
	return &Value{kind: whole(to, least, most)}
}

// RAM is the flag of an amount of RAM.
func RAM(to *app.MB) *Value { return &Value{kind: size(to, 1, maxRAM)} }

// Disk reads disk space of an account into to: megabytes or such as 2GB, 0 for no limit.
func Disk(to *app.MB) *Value { return &Value{kind: size(to, 0, maxRAM)} }

// Given reports whether the flag was.
func (v *Value) Given() bool { return v.given }

// String returns the text.
func (v *Value) String() string { return v.text }

// Set reads the text, or says what was expected.
func (v *Value) Set(text string) error {
	if !v.set(text) {
		return errors.New("expected " + v.expects)
	}
	v.text, v.given = text, true
	return nil
}

// Type implements pflag.Value: help shows no word behind a toggle.
func (v *Value) Type() string {
	if v.toggle {
		return "bool"
	}
	return "value"
}
