package panel

import (
	"slices"
	"strconv"
	"strings"
)

// level is how serious a program says that a line is.
type level string

// The levels, and none.
const (
	noLevel    level = ""
	debugLevel level = "debug"
	infoLevel  level = "info"
	warnLevel  level = "warn"
	errorLevel level = "error"
)

// levels are those that there are, the least serious first.
var levels = []level{debugLevel, infoLevel, warnLevel, errorLevel}

// Letter stands for the level where there is no room for a word.
func (l level) Letter() string { return strings.ToUpper(string(l[:1])) }

// atLeast reports whether a level is as serious as another one.
func (l level) atLeast(least level) bool {
	return slices.Index(levels, l) >= slices.Index(levels, least)
}

// levelWords are what the usual libraries print: pino, winston, zap, slog, bunyan, zerolog, logrus,
// Python's logging, log4j, Logback, Monolog and loguru.
var levelWords = map[string]level{
	"trace": debugLevel, "verbose": debugLevel, "silly": debugLevel, "debug": debugLevel, "fine": debugLevel,
	"info": infoLevel, "http": infoLevel, "notice": infoLevel, "success": infoLevel,
	"warn": warnLevel, "warning": warnLevel,
	"error": errorLevel, "err": errorLevel, "fatal": errorLevel, "critical": errorLevel, "severe": errorLevel, "panic": errorLevel,
	"dpanic": errorLevel, "emergency": errorLevel, "alert": errorLevel, "crit": errorLevel,
}

// levelOf is the level that a line begins with, noLevel where it is not clear that it has one. A
// line has it as a field of JSON, as level=... behind time=..., or as a word; before the word may
// be a time and what is in brackets, such as the name of a thread.
func levelOf(line string) level {
	line = strings.TrimLeft(line, " \t")
	switch {
	case strings.HasPrefix(line, "{"):
		return levelOfJSON(line)
	case strings.HasPrefix(line, "time=") || strings.HasPrefix(line, "ts=") || strings.HasPrefix(line, "level="):
		return levelOfPairs(line)
	}
	return levelOfWords(line)
}

// levelKeys are the fields of JSON that hold a level.
var levelKeys = []string{"level", "severity", "levelname", "lvl", "log.level", "level_name"}

// levelOfJSON is the level in a field of an object; what is nested in it does not count, nor what
// a field holds as text. A line that was cut has the fields that are there.
func levelOfJSON(s string) level {
	depth, key, value := 0, "", false // value: what follows belongs to key
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{', '[':
			depth++
			value = false
		case '}', ']':
			depth--
		case ',':
			value = false
		case ':':
			value = depth == 1
		case '"':
			end := stringEnd(s, i+1)
			if end < 0 {
				return noLevel
			}
			switch text := s[i+1 : end]; {
			case depth != 1:
			case !value:
				key = text
			case slices.Contains(levelKeys, key):
				return levelNamed(text)
			}
			i = end
		default:
			if value && depth == 1 && c >= '0' && c <= '9' {
				if key == "level" {
					return levelNumbered(s[i:])
				}
				value = false
			}
		}
	}
	return noLevel
}

// stringEnd is where a string of JSON ends that begins before from, -1 where it does not end.
func stringEnd(s string, from int) int {
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// levelNamed is a level by its name; slog writes INFO+2 for what is between two.
func levelNamed(name string) level {
	if at := strings.IndexAny(name, "+-"); at > 0 {
		name = name[:at]
	}
	return levelWords[strings.ToLower(name)]
}

// levelNumbered is the level of pino and bunyan.
func levelNumbered(s string) level {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	switch n, _ := strconv.Atoi(s[:end]); {
	case n < 10 || n > 60:
		return noLevel
	case n < 30:
		return debugLevel
	case n < 40:
		return infoLevel
	case n < 50:
		return warnLevel
	}
	return errorLevel
}

// levelOfPairs is the level of logfmt, which is the first pair or the one behind the time.
func levelOfPairs(s string) level {
	for range 2 {
		key, rest, _ := strings.Cut(s, "=")
		value := ""
		if strings.HasPrefix(rest, `"`) {
			end := stringEnd(rest, 1)
			if end < 0 {
				return noLevel
			}
			value, rest = rest[1:end], rest[end+1:]
		} else {
			value, rest, _ = strings.Cut(rest, " ")
		}
		if key == "level" {
			return levelNamed(value)
		}
		s = strings.TrimLeft(rest, " ")
	}
	return noLevel
}

const (
	// mostBefore is how many words may stand before a level.
	mostBefore = 6
	// longestName is how long what is in brackets before a level may be.
	longestName = 64
)

// levelOfWords is the level that stands first in a line, but for a time and names in brackets.
func levelOfWords(s string) level {
	timed := false // a time stands before it
	for range mostBefore {
		s = strings.TrimLeft(s, " \t")
		if l, ok := levelAt(s, timed); ok {
			return l
		}
		n := 0
		switch {
		case s == "":
			return noLevel
		case isTime(word(s)):
			n, timed = len(word(s)), true
		case s[0] == '[':
			if n = strings.IndexByte(s, ']') + 1; n == 0 || n > longestName {
				return noLevel
			}
			if _, name, slash := strings.Cut(s[:n-1], "/"); slash && name == strings.ToUpper(name) && levelWords[strings.ToLower(name)] != noLevel {
				return levelWords[strings.ToLower(name)] // [thread/INFO] of servers of games
			}
			timed = timed || isTime(word(s[1:n]))
		case timed && (s[0] == '-' || s[0] == '|' || s[0] == ','):
			n = 1
		case timed && isZone(word(s)):
			n = len(word(s))
		case timed && (strings.HasPrefix(s[len(word(s)):], " - ") || strings.HasPrefix(s[len(word(s)):], " | ")):
			n = len(word(s)) + len(" - ") // the name of a logger
		default:
			return noLevel
		}
		s = s[n:]
	}
	return noLevel
}

// word is s up to the first space.
func word(s string) string {
	if at := strings.IndexAny(s, " \t"); at >= 0 {
		return s[:at]
	}
	return s
}

// isTime reports whether a word is a date or a time of day.
func isTime(word string) bool {
	word = strings.Trim(word, "[](),")
	digits, marks := 0, 0
	for i := range len(word) {
		switch c := word[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == ':' || c == '-' || c == '/':
			marks++
		case c != '.' && c != ',' && c != 'T' && c != 'Z' && c != '+':
			return false
		}
	}
	return digits >= 4 && marks >= 2
}

// isZone reports whether a word is the zone of a time.
func isZone(word string) bool {
	switch word {
	case "UTC", "GMT", "Z", "AM", "PM":
		return true
	}
	return len(word) >= 5 && (word[0] == '+' || word[0] == '-') && strings.Trim(word[1:], "0123456789:]") == ""
}

// levelAt is the level that s begins with. In lower case a word is one only in brackets, before
// a colon, or behind a time: people write "error" in sentences.
func levelAt(s string, timed bool) (level, bool) {
	if rest, ok := strings.CutPrefix(s, "npm "); ok {
		return levelWords[strings.ToLower(strings.TrimRight(word(rest), "!"))], true
	}
	if rest, ok := strings.CutPrefix(s, "PHP "); ok {
		return levelOfPHP(rest), true
	}
	bracket := strings.HasPrefix(s, "[") || strings.HasPrefix(s, "<") || strings.HasPrefix(s, "(")
	if bracket {
		s = strings.TrimLeft(s[1:], " ")
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') })
	if end < 0 {
		end = len(s)
	}
	name, rest := s[:end], s[end:]
	l, known := levelWords[strings.ToLower(name)]
	if !known || name != strings.ToUpper(name) && name != strings.ToLower(name) {
		return noLevel, false
	}
	if bracket {
		rest = strings.TrimLeft(rest, " ")
		return l, rest != "" && strings.ContainsRune("]>)", rune(rest[0]))
	}
	colon := strings.HasPrefix(rest, ": ") || strings.HasPrefix(rest, ":\t") || name == strings.ToUpper(name) && strings.HasPrefix(rest, ":")
	if name == strings.ToLower(name) {
		return l, colon || timed && (rest == "" || strings.ContainsRune(" \t", rune(rest[0])))
	}
	return l, colon || rest == "" || strings.ContainsRune(" \t|]", rune(rest[0]))
}

// levelOfPHP is the level of what PHP prints of its own.
func levelOfPHP(s string) level {
	switch word(s) {
	case "Fatal", "Parse", "Recoverable":
		return errorLevel
	case "Warning:", "Core":
		return warnLevel
	case "Notice:", "Deprecated:":
		return infoLevel
	}
	return noLevel
}

// goesOn reports whether a line belongs to the one before, as a stack trace does: only within what
// belongs to a line already does the last line of a trace of Python, which is not indented.
func goesOn(line string, trace *bool) bool {
	switch {
	case strings.HasPrefix(line, "Traceback (") || strings.HasPrefix(line, "During handling of ") ||
		strings.HasPrefix(line, "The above exception was "):
		*trace = true
		return true
	case line == "" || line[0] == ' ' || line[0] == '\t':
		return true
	case strings.HasPrefix(line, "Caused by: ") || strings.HasPrefix(line, "}"):
		return true
	case *trace:
		*trace = false
		return true
	}
	return false
}
