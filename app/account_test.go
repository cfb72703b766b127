package app

import (
	"testing"
	"time"
)

func TestTokenUnused(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		token Token
		want  bool
	}{
		"new":                        {Token{CreatedAt: now}, false},
		"never used, almost":         {Token{CreatedAt: now.Add(-90*day + 1)}, false},
		"never used":                 {Token{CreatedAt: now.Add(-90 * day)}, true},
		"old, and used":              {Token{CreatedAt: now.Add(-900 * day), LastUsed: now.Add(-89 * day)}, false},
		"old, and not used for long": {Token{CreatedAt: now.Add(-900 * day), LastUsed: now.Add(-91 * day)}, true},
	} {
		if got := tt.token.Unused(now); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
