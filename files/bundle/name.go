package bundle

import (
	"archive/zip"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/app"
)

// maxQuoted is how many characters of a name an error repeats.
const maxQuoted = 80

// quote makes a stranger's text safe to print, and short.
func quote(s string) string {
	if utf8.RuneCountInString(s) > maxQuoted {
		s = string([]rune(s)[:maxQuoted]) + "..."
	}
	return fmt.Sprintf("%q", s)
}

// refuse makes the error of one entry.
func refuse(name, format string, args ...any) error {
	return app.Errorf(app.Unusable, "cannot unpack the ZIP: entry %s %s", quote(name), app.Textf(format, args...))
}

// decodeName returns an entry's name as UTF-8. The format's own encoding is
// CP437; many tools write UTF-8 without saying so, and both are told apart by
// what the bytes can be.
func decodeName(raw string, flagged bool) (string, error) {
	if utf8.ValidString(raw) {
		return raw, nil
	}
	if flagged {
		return "", refuse(raw, "has a name that is not valid UTF-8 although it says so")
	}
	return fromCP437(raw), nil
}

// entryName returns the name of an entry as UTF-8, with slashes. Some programs
// for Windows write backslashes, against the format; as unzip does, such a name
// is read as meant if the entry says it comes from there and has no slash.
func entryName(f *zip.File) (string, error) {
	name, err := decodeName(f.Name, f.Flags&utf8Flag != 0)
	if err == nil && fromWindows(f) && !strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, `\`, "/")
	}
	return name, err
}

// fromWindows reports whether an entry was made on FAT, NTFS or VFAT
// (APPNOTE.TXT, 4.4.2).
func fromWindows(f *zip.File) bool {
	switch f.CreatorVersion >> 8 {
	case 0, 10, 14:
		return true
	}
	return false
}

// splitName returns the components of a decoded name without empty and "."
// ones, or the refusal of the whole name.
func splitName(name string, lim Limits) ([]string, error) {
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return nil, refuse(name, "has a control character in its name")
	}
	if strings.Contains(name, `\`) {
		return nil, refuse(name, "has a backslash in its name; directories are separated by /")
	}
	if strings.HasPrefix(name, "/") || hasDrive(name) {
		return nil, refuse(name, "has an absolute name")
	}
	if len(name) > maxPath {
		return nil, refuse(name, "has a name longer than %d bytes", maxPath)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, refuse(name, "climbs out of the archive")
		case len(part) > lim.MaxName:
			return nil, refuse(name, "has a part longer than %d bytes in its name", lim.MaxName)
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) > lim.MaxDepth {
		return nil, refuse(name, "is nested more than %d directories deep", lim.MaxDepth)
	}
	return parts, nil
}

// hasDrive reports a name such as C:/x.
func hasDrive(name string) bool {
	return len(name) >= 3 && name[1] == ':' && name[2] == '/' &&
		(name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z')
}

// cp437 is the upper half of IBM code page 437, the encoding of names in a ZIP
// that does not declare UTF-8 (APPNOTE.TXT, appendix D).
const cp437 = "ÇüéâäàåçêëèïîìÄÅ" +
	"ÉæÆôöòûùÿÖÜ¢£¥₧ƒ" +
	"áíóúñÑªº¿⌐¬½¼¡«»" +
	"░▒▓│┤╡╢╖╕╣║╗╝╜╛┐" +
	"└┴┬├─┼╞╟╚╔╩╦╠═╬╧" +
	"╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀" +
	"αßΓπΣσµτΦΘΩδ∞φε∩" +
	"≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0"

// cp437Runes is the same by position.
var cp437Runes = []rune(cp437)

// fromCP437 decodes s.
func fromCP437(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] < 0x80 {
			b.WriteByte(s[i])
		} else {
			b.WriteRune(cp437Runes[s[i]-0x80])
		}
	}
	return b.String()
}
