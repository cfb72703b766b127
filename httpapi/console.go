package httpapi

import (
	"strings"

	"berth/app"
)

func (a applications) console(c *call) (response, error) {
	f := c.fields()
	command := f.command()
	if f.err != nil {
		return response{}, f.err
	}
	shell, err := a.Console(c.Request.Context(), c.owner(), c.id, command)
	if err != nil {
		return response{}, err
	}
	return ok(c.translate(verdict(shell)), member{"apps", object{{"id", c.id}, {"shell", show(c, shell)}}})
}

// show is what a console command has written. Clients show one part of it and no
// message: the older ones cmd, which is what a terminal would have shown, the
// newer ones stdout and stderr. So what a person has to know is in all of them.
func show(c *call, s app.Shell) object {
	stdout, stderr := streamText(c, s.Stdout), streamText(c, s.Stderr)
	if note := ended(s); !note.IsZero() {
		stderr = line(stderr) + "[berth] " + c.translate(note) + "\n"
	}
	cmd := stdout
	if stderr != "" {
		cmd = line(stdout) + stderr
	}
	return object{{"cmd", cmd}, {"online", s.Online}, {"stdout", stdout}, {"stderr", stderr}}
}

// streamText is a stream, with a last line that says what is missing.
func streamText(c *call, o app.Output) string {
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

// ended describes an end that the command did not choose. It returns no sentence when the
// command ended by itself.
func ended(s app.Shell) app.Text {
	switch {
	case !s.Cut.IsZero():
		return app.Textf("the command was ended, with everything it had started: %v", s.Cut)
	case s.Exit.OOM:
		return app.Textf("a process was killed: the application needed more than %d MB of RAM", s.Exit.LimitMB)
	case s.Exit.HostOOM:
		return app.Textf("a process was killed: this host ran short of memory; try again in a minute")
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
