package bundle

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"berth/app"
)

// The file app.VariablesFile of a backup: one NAME='value' a line, a value with
// a quote or an end of line as NAME="value", in which \\, \", \n, \r, \$
// and \` stand for these characters. Empty lines and those that begin with # mean nothing.
// Shells and dotenv libraries read the first form as it was meant.

// maxVariables bounds what is read of such a file, in bytes: the 64 KB that an
// application may have, of which the second form makes twice as much.
const maxVariables = 256 << 10

const variablesHead = "# The environment variables of an application, in plain, as they were when this backup was made.\n"

var (
	variableLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(?:'([^']*)'|"((?:[^"\\]|\\[\\"nr$\x60])*)")$`)

	unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r", `\$`, "$", "\\`", "`")
)

// AddVariables adds the file with environment variables. It MUST come first: a
// name that it takes is refused to what follows.
func (w *Writer) AddVariables(all []app.Variable, mod time.Time) error {
	text := formatVariables(all)
	return w.add(app.VariablesFile, 0o600, mod, int64(len(text)), bytes.NewReader(text))
}

func formatVariables(all []app.Variable) []byte {
	return []byte(variablesHead + app.FormatEnv(all))
}

// ParseVariables reads what AddVariables wrote, and what somebody made of it by
// hand. What is wrong is app.Unusable and names the line, never what is in it;
// a failing r is plain. Whether an application may have them is not judged.
func ParseVariables(r io.Reader) ([]app.Variable, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxVariables+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", app.VariablesFile, err)
	}
	if len(text) > maxVariables {
		return nil, app.Errorf(app.Unusable, "%s is larger than %d KB", app.VariablesFile, maxVariables>>10)
	}
	var all []app.Variable
	seen := map[string]bool{}
	n := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := variableLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			return nil, app.Errorf(app.Unusable, "line %d of %s is not NAME='value'", n, app.VariablesFile)
		case seen[m[1]]:
			return nil, app.Errorf(app.Unusable, "line %d of %s sets a variable for the second time", n, app.VariablesFile)
		}
		seen[m[1]] = true
		all = append(all, app.Variable{Name: m[1], Value: m[2] + unescape.Replace(m[3])})
	}
	return all, nil
}
