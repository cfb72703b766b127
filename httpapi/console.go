package httpapi

import (
	"strings"

	"berth/app"
)

// maxCommand is the bytes of a console command.
const maxCommand = 8 << 10

type consoleOf struct {
	ID    app.ID `json:"id"`
	Shell shell  `json:"shell"`
}

// shell is what a console command said. Clients show one part of it and no
// message: the older ones cmd, which is what a terminal would have shown, the
// newer ones stdout and stderr. So what a person has to know is in all of them.
type shell struct {
	Cmd    string `json:"cmd"`
	Online bool   `json:"online"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func (s *server) console(c *call) (response, error) {
	f, err := c.fields()
	if err != nil {
		return response{}, err
	}
	command, err := commandOf(f)
	if err != nil {
		return response{}, err
	}
	said, err := s.Applications.Console(c.Request.Context(), c.owner(), c.id, command)
	if err != nil {
		return response{}, err
	}
	return ok(appsAnswer{statusOK, c.tell(verdict(said)), consoleOf{c.id, c.show(said)}})
}

// commandOf takes the command as it is: it is the shell's to judge.
func commandOf(f fields) (string, error) {
	command, err := f.text("command")
	switch {
	case err != nil:
		return "", err
	case command == nil, strings.TrimSpace(*command) == "":
		return "", app.Errorf(app.Invalid, "The field command is missing or empty. Send a shell command.")
	case len(*command) > maxCommand:
		return "", app.Errorf(app.Invalid, "The command is too long: it has %d bytes, and %d are allowed. Put it into a script and commit that.",
			len(*command), maxCommand)
	case strings.Contains(*command, "\x00"):
		return "", app.Errorf(app.Invalid, "The command holds a NUL character, which no command can.")
	}
	return *command, nil
}

// show makes one text of each stream, and of both what a terminal shows.
func (c *call) show(s app.Shell) shell {
	out, errs := c.streamText(s.Stdout), c.streamText(s.Stderr)
	if note := ended(s); !note.IsZero() {
		errs = line(errs) + "[berth] " + c.tell(note) + "\n"
	}
	cmd := out
	if errs != "" {
		cmd = line(out) + errs
	}
	return shell{Cmd: cmd, Online: s.Online, Stdout: out, Stderr: errs}
}

// streamText is a stream with a last line that tells what is missing.
func (c *call) streamText(o app.Output) string {
	if o.Dropped == 0 {
		return o.Text
	}
	return line(o.Text) + "[berth] " + c.say("%s more were dropped: the first %s are kept", size(o.Dropped), size(app.OutputMax)) + "\n"
}

// line ends a text with the end of a line, unless it is empty.
func line(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// ended tells of an end that the command did not choose, nothing when there is
// nothing to tell.
func ended(s app.Shell) app.Text {
	switch {
	case !s.Cut.IsZero():
		return app.Textf("the command was ended, with everything it had started: %v", s.Cut)
	case s.Exit.OOM:
		return app.Textf("a process was killed: the application needed more than %d MB of RAM", s.Exit.LimitMB)
	}
	return app.Text{}
}

// verdict is the message: how the command ended, always.
func verdict(s app.Shell) app.Text {
	own := app.Textf("The command ended with exit code %d", s.Exit.Code)
	if s.Exit.Signal > 0 {
		own = app.Textf("The command was ended by signal %d (exit code %d)", s.Exit.Signal, s.Exit.Code)
	}
	switch note := ended(s); {
	case !s.Cut.IsZero():
		return app.Textf("The command was ended, with everything it had started: %v.", s.Cut)
	case !note.IsZero():
		return app.Textf("%v, and %v.", own, note)
	}
	return app.Textf("%v.", own)
}
