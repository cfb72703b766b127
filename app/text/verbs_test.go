package text

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// verbs returns what a format does with each of its arguments: "1%d". Those of a
// format that is wrong are an error.
func verbs(format string) (map[string]int, error) {
	found := map[string]int{}
	next := 1
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		spec := "%"
		for i++; ; i++ {
			if i == len(format) {
				return nil, fmt.Errorf("%q ends within a verb", format)
			}
			if c := format[i]; c == '[' {
				n, after, ok := strings.Cut(format[i+1:], "]")
				number, err := strconv.Atoi(n)
				if !ok || err != nil || number < 1 {
					return nil, fmt.Errorf("%q has a wrong index", format)
				}
				next, i = number, len(format)-len(after)-1
			} else if spec += string(c); c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '%' {
				break
			} else if !strings.ContainsRune("+-# 0123456789.", rune(c)) {
				return nil, fmt.Errorf("%q has the verb %q", format, spec)
			}
		}
		if spec != "%%" {
			found[fmt.Sprint(next, spec)]++
			next++
		}
	}
	return found, nil
}

// says reports whether a format has words of its own.
func says(format string) bool {
	for i := 0; i < len(format); i++ {
		switch c := format[i]; {
		case c == '%':
			for i++; i < len(format) && strings.IndexByte("+-# 0123456789.[]", format[i]) >= 0; i++ {
			}
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			return true
		}
	}
	return false
}

func sameVerbs(a, b string) error {
	one, err := verbs(a)
	if err != nil {
		return err
	}
	two, err := verbs(b)
	if err != nil {
		return err
	}
	if !maps.Equal(one, two) {
		return fmt.Errorf("%q has the verbs %v, and %q has %v", a, one, b, two)
	}
	return nil
}
