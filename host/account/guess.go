package account

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
)

// common are words of which people make passwords, as the lists of stolen ones show.
//
//go:embed common.txt
var common string

// commonWords are those of common, and the product's own name.
var commonWords = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{"berth": true}
	for word := range strings.FieldsSeq(common) {
		words[word] = true
	}
	return words
})

// What the parts of a password cost somebody who guesses, as powers of ten: one of a thousand
// words, one of a few runs of the keyboard, a year, a character.
const (
	guessWord   = 3.0
	guessRun    = 1.5
	guessYear   = 2.0
	guessDigit  = 0.9
	guessLetter = 1.4
	guessOther  = 1.8
	// minStrength is more than three of the words, or a number of ten digits, needs.
	minStrength = 9.5
	// guessedLength is what is looked at: a password that is longer has enough in it, or
	// repeats itself, which is seen by then.
	guessedLength = 64
	longestWord   = 20
)

// rows are the runs that people type.
var rows = []string{
	"01234567890", "abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm",
	"йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю",
}

// leet are letters as they are written with other signs.
var leet = map[rune]rune{'@': 'a', '4': 'a', '3': 'e', '1': 'i', '!': 'i', '0': 'o', '$': 's', '5': 's', '7': 't', '8': 'b', '9': 'g'}

// strength is how many tries a password needs of somebody who knows how people make them, as a
// power of ten: the cheapest way to put it together from words, runs, repetitions, years and
// characters. name is that of the account.
func strength(name, password string) float64 {
	text := []rune(strings.ToLower(password))
	text = text[:min(len(text), guessedLength)]
	own := map[string]bool{strings.ToLower(name): true}
	cheapest := make([]float64, len(text)+1)
	for end := 1; end <= len(text); end++ {
		cheapest[end] = cheapest[end-1] + guessOf(text[end-1])
		for begin := max(0, end-longestWord); begin <= end-2; begin++ {
			part := text[begin:end]
			if cost, known := partCost(part, own); known {
				cheapest[end] = min(cheapest[end], cheapest[begin]+cost)
			}
		}
		for size := 1; 2*size <= end; size++ { // what stands there twice costs once
			if string(text[end-size:end]) == string(text[end-2*size:end-size]) {
				cheapest[end] = min(cheapest[end], cheapest[end-size]+0.1)
			}
		}
	}
	return cheapest[len(text)]
}

func guessOf(r rune) float64 {
	switch {
	case unicode.IsDigit(r):
		return guessDigit
	case unicode.IsLetter(r):
		return guessLetter
	}
	return guessOther
}

// partCost is what a word, a run or a year costs.
func partCost(part []rune, own map[string]bool) (cost float64, known bool) {
	word := string(part)
	plain := []rune(word)
	for i, r := range plain {
		if letter, ok := leet[r]; ok {
			plain[i] = letter
		}
	}
	switch {
	case own[word]:
		return 0.5, true
	case len(part) >= 3 && isRun(word):
		return guessRun, true
	case len(part) == 4 && (strings.HasPrefix(word, "19") || strings.HasPrefix(word, "20")) && unicode.IsDigit(part[2]) && unicode.IsDigit(part[3]):
		return guessYear, true
	case commonWords()[word] || commonWords()[backwards(part)]:
		return guessWord, true
	case commonWords()[string(plain)]:
		return guessWord + 0.5, true
	}
	return 0, false
}

// isRun reports whether a part is in a row of the keyboard, there or back.
func isRun(word string) bool {
	back := backwards([]rune(word))
	for _, row := range rows {
		if strings.Contains(row, word) || strings.Contains(row, back) {
			return true
		}
	}
	return false
}

func backwards(text []rune) string {
	back := make([]rune, len(text))
	for i, r := range text {
		back[len(text)-1-i] = r
	}
	return string(back)
}
