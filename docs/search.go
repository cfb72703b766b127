package docs

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hit is a section that has what was searched for.
type Hit struct {
	Page    string // its name
	Title   string // of the page
	Section string // its title; "" for the beginning of the page
	ID      string // of the section's heading
	// Before, Found and After are the place where the first word is, and what is around it.
	Before, Found, After string

	rank int
}

// around is how many bytes are shown on each side of what was found, as far as words are whole.
const around = 90

// Search returns the sections that have every word of q, at most so many: first those whose title has them.
// Letters are the same, small or capital.
func Search(q string, most int) []Hit {
	words := strings.Fields(strings.ToLower(q))
	if len(words) == 0 {
		return nil
	}
	var hits []Hit
	for _, g := range Groups {
		for _, name := range g.Names {
			p, _ := Find(name)
			for n, s := range p.Sections {
				if h, ok := s.search(words, p.Title); ok {
					h.Page, h.Title = name, p.Title
					if n > 0 {
						h.Section = s.Title
					}
					hits = append(hits, h)
				}
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return a.rank - b.rank })
	return hits[:min(len(hits), most)]
}

// search looks for words in a section of the page with a title.
func (s Section) search(words []string, page string) (Hit, bool) {
	title, text := strings.ToLower(s.Title), lower(s.words)
	inTitle := 0
	for _, w := range words {
		switch {
		case strings.Contains(title, w):
			inTitle++
		case !strings.Contains(text, w) && !strings.Contains(strings.ToLower(page), w):
			return Hit{}, false
		}
	}
	h := Hit{ID: s.ID, rank: len(words) - inTitle}
	at := slices.IndexFunc(words, func(w string) bool { return strings.Contains(text, w) })
	if at < 0 {
		h.After = strings.TrimSpace(cut(s.words, 2*around))
		return h, true
	}
	begin := strings.Index(text, words[at])
	end := begin + len(words[at])
	h.Before, h.Found, h.After = cutFront(s.words[:begin], around), s.words[begin:end], cut(s.words[end:], around)
	return h, true
}

// lower is s in small letters, each where it was: what needs another number of bytes stays.
func lower(s string) string {
	return strings.Map(func(c rune) rune {
		if l := unicode.ToLower(c); utf8.RuneLen(l) == utf8.RuneLen(c) {
			return l
		}
		return c
	}, s)
}

// cut returns the beginning of s, in whole words.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if at := strings.LastIndexByte(s[:most], ' '); at >= 0 {
		return s[:at] + " …"
	}
	return "…"
}

// cutFront returns the end of s, in whole words.
func cutFront(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if at := strings.IndexByte(s[len(s)-most:], ' '); at >= 0 {
		return "… " + s[len(s)-most+at+1:]
	}
	return "…"
}
