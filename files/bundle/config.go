package bundle

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
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
	var cfg app.Config
	data, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return cfg, fmt.Errorf("cannot read %s: %w", ConfigName, err)
	}
	if len(data) > maxConfig {
		return cfg, app.Errorf(app.Unusable, "%s is larger than %d KB", ConfigName, maxConfig>>10)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return cfg, app.Errorf(app.Unusable, "%s is not UTF-8 text", ConfigName)
	}
	seen := make(map[string]int)
	n := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		n++
		if err := parseLine(&cfg, seen, n, strings.TrimSuffix(line, "\r")); err != nil {
			return app.Config{}, err
		}
	}
	return cfg, nil
}

// parseLine takes one line into cfg.
func parseLine(cfg *app.Config, seen map[string]int, n int, line string) error {
	key, _, _ := strings.Cut(line, "=")
	cut := comment
	if strings.EqualFold(strings.TrimSpace(key), "AVATAR") {
		cut = avatarComment
		// A value that is nothing but a comment starts right after the '='.
		if head, value, ok := strings.Cut(line, "="); ok {
			line = head + "=" + cut.ReplaceAllString(value, "")
		}
	} else {
		line = cut.ReplaceAllString(line, "")
	}
	line = strings.TrimSpace(line)
	if line == "" {
		return nil
	}
	key, value, ok := strings.Cut(line, "=")
	key, value = strings.ToUpper(strings.TrimSpace(key)), strings.TrimSpace(value)
	if !ok || key == "" {
		return app.Errorf(app.Unusable, "%s line %d: %s: must be KEY=value", ConfigName, n, quote(line))
	}
	if i := strings.IndexFunc(line, isControl); i >= 0 {
		return lineError(n, key, value, app.Textf("must not hold control characters"))
	}
	if first, ok := seen[key]; ok {
		return lineError(n, key, value, app.Textf("is set already in line %d", first))
	}
	seen[key] = n
	if value == "" && key != "APT" { // no packages are a wish, too
		return nil // clients write and accept what nobody filled in
	}
	cfg.Keys, cfg.Lines = append(cfg.Keys, key), append(cfg.Lines, n)
	if set, ok := setters[key]; ok {
		if want := set(cfg, value); !want.IsZero() {
			return lineError(n, key, value, want)
		}
	}
	return nil
}

// lineError makes the error of one line.
func lineError(n int, key, value string, want app.Text) error {
	if utf8.RuneCountInString(key) > maxQuoted || slices.ContainsFunc([]rune(key), unicode.IsControl) {
		key = quote(key)
	}
	return app.Errorf(app.Unusable, "%s line %d: %s=%s: %s", ConfigName, n, key, quote(value), want)
}

// isControl allows the tab, which editors put between words.
func isControl(r rune) bool { return r != '\t' && unicode.IsControl(r) }
