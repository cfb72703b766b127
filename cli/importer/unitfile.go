package importer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxUnit bounds a unit file, a drop-in and a file of variables, in bytes; maxLine is how long a
// line of one may be with its continuations, as systemd has it.
const (
	MaxUnit = 1 << 20
	maxLine = 1 << 20
)

// unitFile is what a unit says: for each key, as "Service.ExecStart", its values in order. An
// empty one forgets those before it.
type unitFile map[string][]string

// parse adds what a unit file or a drop-in says. A line that systemd ignores too is ignored.
func (u unitFile) parse(text string) {
	section, whole := "", ""
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimSpace(line)
		if bare == "" && whole == "" || strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, ";") {
			continue // also between lines that continue
		}
		if whole += line; len(whole) > maxLine {
			return
		}
		if strings.HasSuffix(line, `\`) {
			whole = strings.TrimSuffix(whole, `\`) + " "
			continue
		}
		u.assign(&section, strings.TrimSpace(whole))
		whole = ""
	}
	u.assign(&section, strings.TrimSpace(whole))
}

func (u unitFile) assign(section *string, line string) {
	if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
		*section = line[1 : len(line)-1]
		return
	}
	key, value, is := strings.Cut(line, "=")
	if !is || *section == "" {
		return
	}
	key = *section + "." + strings.TrimSpace(key)
	if value = strings.TrimSpace(value); value == "" {
		u[key] = nil
		return
	}
	u[key] = append(u[key], value)
}

// last is the value of a key that has one.
func (u unitFile) last(key string) string {
	all := u["Service."+key]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// escapes are those of C that systemd.syntax(7) knows, and \s for a space.
var escapes = map[byte]string{
	'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\\': `\`, '"': `"`, '\'': "'", 's': " ",
}

// split makes words of a line: spaces separate them, quotes keep spaces, and escapes stand for
// characters. A quote that does not close is an error, which repeats nothing of the line.
func split(line string) ([]string, error) {
	var all []string
	var word strings.Builder
	open, some := byte(0), false
	for i := 0; i < len(line); i++ {
		b := line[i]
		switch {
		case b == '\\' && i+1 < len(line):
			text, n := escape(line[i+1:])
			word.WriteString(text)
			i, some = i+n, true
		case open != 0 && b == open:
			open = 0
		case open == 0 && (b == '"' || b == '\''):
			open, some = b, true
		case open == 0 && (b == ' ' || b == '\t' || b == '\n'):
			if some {
				all = append(all, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteByte(b)
			some = true
		}
	}
	if open != 0 {
		return nil, fmt.Errorf("a quote does not close")
	}
	if some {
		all = append(all, word.String())
	}
	return all, nil
}

// escape reads what is behind a backslash, and how many bytes of it there are.
func escape(text string) (string, int) {
	if is, known := escapes[text[0]]; known {
		return is, 1
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[0]]
	if digits > 0 && len(text) > digits {
		if n, err := strconv.ParseUint(text[1:1+digits], 16, 32); err == nil && n > 0 && utf8.ValidRune(rune(n)) {
			return string(rune(n)), 1 + digits
		}
	}
	if len(text) > 2 && text[0] >= '0' && text[0] <= '3' {
		if n, err := strconv.ParseUint(text[:3], 8, 8); err == nil && n > 0 {
			return string(rune(n)), 3
		}
	}
	return `\` + text[:1], 1
}

// variables reads a file of EnvironmentFile=: NAME=VALUE, quotes as a shell has them, a
// backslash at the end of a line continues it. What systemd would ignore is ignored.
func variables(text string) map[string]string {
	all := map[string]string{}
	for text != "" {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			break
		}
		if text[0] == '#' || text[0] == ';' {
			_, text, _ = strings.Cut(text, "\n")
			continue
		}
		end := strings.IndexAny(text, "=\n")
		if end < 0 || text[end] == '\n' {
			_, text, _ = strings.Cut(text, "\n")
			continue
		}
		name := strings.TrimSpace(text[:end])
		var value string
		value, text = variable(text[end+1:])
		all[name] = value
	}
	return all
}

// variable reads a value to the end of its line, and returns what is behind that.
func variable(text string) (value, rest string) {
	var b strings.Builder
	text = strings.TrimLeft(text, " \t")
	open, firm := byte(0), 0 // firm is how much is no white space at the end
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case open == '\'' && c != '\'', open == '"' && c != '"' && c != '\\':
			b.WriteByte(c)
			firm = b.Len()
		case open != 0 && c == open:
			open, firm = 0, b.Len()
		case c == '\\' && i+1 < len(text):
			i++
			if open == '"' && !strings.ContainsRune("\"\\`$\n", rune(text[i])) {
				b.WriteByte('\\')
			}
			if text[i] != '\n' {
				b.WriteByte(text[i])
			}
			firm = b.Len()
		case open == 0 && c == '\n':
			return b.String()[:firm], text[i+1:]
		case open == 0 && (c == '"' || c == '\'') && b.Len() == firm:
			open = c
		case open == 0 && (c == ' ' || c == '\t' || c == '\r'):
			b.WriteByte(c)
		default:
			b.WriteByte(c)
			firm = b.Len()
		}
	}
	return b.String()[:firm], ""
}
