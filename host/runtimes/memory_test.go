package runtimes

import (
	"slices"
	"strings"
	"testing"

	"berth/app"
)

func TestSized(t *testing.T) {
	const rest = " GOMEMLIMIT=85MiB"
	const rubys = " RUBY_GC_MALLOC_LIMIT=4000000 RUBY_GC_MALLOC_LIMIT_MAX=8000000 RUBY_GC_OLDMALLOC_LIMIT=4000000 RUBY_GC_OLDMALLOC_LIMIT_MAX=8000000"
	for what, c := range map[string]struct {
		env, lang string
		want      string
	}{
		"nothing set":       {"A=1", "javascript", "A=1 NODE_OPTIONS=--max-old-space-size=68 DENO_V8_FLAGS=--max-old-space-size=53" + rest},
		"the owner's heap":  {"NODE_OPTIONS=--max_old_space_size=90", "javascript", "NODE_OPTIONS=--max_old_space_size=90 DENO_V8_FLAGS=--max-old-space-size=53" + rest},
		"another option":    {"NODE_OPTIONS=--enable-source-maps", "", "NODE_OPTIONS=--enable-source-maps|--max-old-space-size=68 DENO_V8_FLAGS=--max-old-space-size=53" + rest},
		"another of V8's":   {"DENO_V8_FLAGS=--expose-gc", "", "DENO_V8_FLAGS=--expose-gc,--max-old-space-size=53 NODE_OPTIONS=--max-old-space-size=68" + rest},
		"the owner's limit": {"GOMEMLIMIT=off", "go", "GOMEMLIMIT=off NODE_OPTIONS=--max-old-space-size=68 DENO_V8_FLAGS=--max-old-space-size=53"},
		"Python":            {"", "python", "NODE_OPTIONS=--max-old-space-size=68 DENO_V8_FLAGS=--max-old-space-size=53" + rest + " MALLOC_ARENA_MAX=1"},
		"Ruby with arenas":  {"MALLOC_ARENA_MAX=4", "ruby", "MALLOC_ARENA_MAX=4 NODE_OPTIONS=--max-old-space-size=68 DENO_V8_FLAGS=--max-old-space-size=53" + rest + rubys},
	} {
		got := Sized(strings.Fields(c.env), c.lang, 100)
		if text := strings.ReplaceAll(strings.Join(got, "\n"), " ", "|"); text != strings.ReplaceAll(c.want, " ", "\n") {
			t.Errorf("%s: %q, want %q", what, text, c.want)
		}
	}
	for ram, want := range map[app.MB][]string{
		1:    {"NODE_OPTIONS=--max-old-space-size=16", "GOMEMLIMIT=0MiB"},
		64:   {"NODE_OPTIONS=--max-old-space-size=42", "DENO_V8_FLAGS=--max-old-space-size=29", "GOMEMLIMIT=54MiB"},
		8192: {"NODE_OPTIONS=--max-old-space-size=5732"},
	} {
		for _, v := range want {
			if got := Sized(nil, "", ram); !slices.Contains(got, v) {
				t.Errorf("%d MB: %q lacks %s", ram, got, v)
			}
		}
	}
}
