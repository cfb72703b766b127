package httpapi

import "berth/app"

// input sends a line to the program, for the owner alone.
func (a applications) input(c *call) (response, error) {
	f := c.fields()
	line := f.text("line")
	if line == nil {
		f.wrong("The field line is missing. Send the text of one line.")
	}
	if f.err != nil {
		return response{}, f.err
	}
	if err := a.line(c.Request.Context(), c.owner(), c.id, *line); err != nil {
		return response{}, err
	}
	return ok(c.translate(app.Textf("The line was sent to the program.")))
}
