package bundle

import "strings"

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
