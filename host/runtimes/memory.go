package runtimes

import (
	"fmt"
	"slices"
	"strings"

	"berth/app"
)

// hint tells the runtimes of some languages by a variable of the environment how much RAM a program
// has. The values are measured: docs/memory.md has what becomes of programs with them and without.
type hint struct {
	name  string
	langs []*language // whose programs get it; nil for all, for START may name anything
	value func(ram app.MB) string
	part  string // of a value that says the same already, in the variable of an owner; "" replaces nothing
	glue  string // between what an owner's variable says and this
}

// heapOption is V8's. What is not heap (code, stacks, buffers) needs the rest.
const heapOption = "max-old-space-size"

var hints = []hint{
	{"NODE_OPTIONS", nil, func(ram app.MB) string { return fmt.Sprintf("--%s=%d", heapOption, max(ram*70/100-2, 16)) }, heapOption, " "},
	// V8 keeps more beside its heap here than in Node.js.
	{"DENO_V8_FLAGS", nil, func(ram app.MB) string { return fmt.Sprintf("--%s=%d", heapOption, max(ram*65/100-12, 16)) }, heapOption, ","},
	// No limit: the collector works harder before it (https://pkg.go.dev/runtime).
	{"GOMEMLIMIT", nil, func(ram app.MB) string { return fmt.Sprintf("%dMiB", ram*85/100) }, "", ""},
	// What Ruby allocates outside its heap makes it collect: by default after 16 MB, growing to 128.
	{"RUBY_GC_MALLOC_LIMIT", []*language{&ruby}, always("4000000"), "", ""},
	{"RUBY_GC_MALLOC_LIMIT_MAX", []*language{&ruby}, always("8000000"), "", ""},
	{"RUBY_GC_OLDMALLOC_LIMIT", []*language{&ruby}, always("4000000"), "", ""},
	{"RUBY_GC_OLDMALLOC_LIMIT_MAX", []*language{&ruby}, always("8000000"), "", ""},
	// One arena: each thread's own would keep what others could use (mallopt(3)). These languages
	// run one thread at a time, so threads do not wait for it.
	{"MALLOC_ARENA_MAX", []*language{&python, &ruby}, always("1"), "", ""},
}

// always is a value for every RAM.
func always(value string) func(ram app.MB) string { return func(app.MB) string { return value } }

// Sized adds to an environment what tells the runtime of a language, as app.Code.Lang names it, that
// the program has ram. A variable that is there already stays as it is, but for options that can
// stand beside others. Without a RAM it adds nothing.
func Sized(env []string, lang string, ram app.MB) []string {
	if ram <= 0 {
		return env
	}
	for _, h := range hints {
		if h.langs != nil && !slices.ContainsFunc(h.langs, func(l *language) bool { return l.name == lang }) {
			continue
		}
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, h.name+"=") })
		switch {
		case i < 0:
			env = append(env, h.name+"="+h.value(ram))
		case h.part != "" && !strings.Contains(strings.ReplaceAll(env[i], "_", "-"), h.part):
			env[i] += h.glue + h.value(ram)
		}
	}
	return env
}

// PHPLimit is the option that bounds the memory of one script of PHP: where a request needs more, that
// ends, and the server goes on.
func PHPLimit(ram app.MB) string { return fmt.Sprintf("-dmemory_limit=%dM", ram*80/100) }
