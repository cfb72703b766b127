package panel

import "berth/app"

// letters are what stands for a language in the tile of an application without an icon of its own; "" for
// one that has a drawing (glyph).
func letters(lang string) string {
	return map[string]string{
		"javascript": "Js", "typescript": "Ts", "python": "Py", "php": "Ph", "go": "Go", "java": "Ja", "ruby": "Rb",
		"rust": "Rs", "deno": "De", "bun": "Bu",
	}[lang]
}

// glyph is the drawing of a language without letters.
func glyph(lang string) string {
	switch lang {
	case app.StaticLang:
		return "globe"
	case "shell":
		return "prompt"
	}
	return "box"
}
