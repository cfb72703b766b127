package screen

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// AskSecret prints a prompt and reads a line of the terminal in, which does not show it. The
// terminal shows nothing from before the prompt: a paste may be as quick as the prompt. The
// error is io.EOF if the input ended.
func AskSecret(in *os.File, out io.Writer, prompt string) ([]byte, error) {
	show, err := hide(in.Fd())
	if err != nil {
		return nil, fmt.Errorf("cannot hide what is typed: %w", err)
	}
	text, err := readAfter(in, out, prompt)
	if failed := show(); err == nil && failed != nil {
		err = fmt.Errorf("cannot show again what is typed: %w", failed)
	}
	return text, err
}

func readAfter(in *os.File, out io.Writer, prompt string) ([]byte, error) {
	if _, err := fmt.Fprint(out, prompt); err != nil {
		return nil, err
	}
	return term.ReadPassword(int(in.Fd()))
}
