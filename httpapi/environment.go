package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"berth/app"
)

// maxVariables bounds the body of the variables in bytes: JSON may take six for
// one of a value.
const maxVariables = 512 << 10

type variablesAnswer struct {
	Status  string     `json:"status"`
	Message string     `json:"message"`
	Env     []variable `json:"env"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"` // masked
}

func (s *server) variables(c *call) (response, error) {
	all, err := s.Settings.Variables(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := make([]variable, len(all))
	for i, v := range all {
		list[i] = variable{v.Name, v.Masked()}
	}
	return ok(variablesAnswer{statusOK, c.say("The environment variables of your application have been loaded."), list})
}

func (s *server) setVariables(c *call) (response, error) {
	f, err := c.fieldsWithin(maxVariables)
	if err != nil {
		return response{}, err
	}
	change, err := f.variables()
	if err != nil {
		return response{}, err
	}
	c.audit.Note("%s", namesOf(change))
	if err := s.Settings.SetVariables(c.Request.Context(), c.owner(), c.id, change); err != nil {
		return response{}, err
	}
	removed := 0
	for _, value := range change {
		if value == nil {
			removed++
		}
	}
	return ok(numbered{statusOK, http.StatusOK, c.tell(changed(len(change)-removed, removed))})
}

// variables returns the field env: a text sets the variable of that name, null
// removes it. An error repeats no value, and has no cause that might.
func (f fields) variables() (map[string]*string, error) {
	if !f.has("env") || !bytes.HasPrefix(f["env"], []byte("{")) {
		return nil, app.Errorf(app.Invalid, `The field env must be an object of names and values, such as {"NAME":"value"}.`)
	}
	members, err := parseFields(f["env"])
	if err != nil {
		return nil, err
	}
	change := make(map[string]*string, len(members))
	for name, value := range members {
		var text *string // stays nil for null
		if json.Unmarshal(value, &text) != nil {
			return nil, app.Errorf(app.Invalid, "The value of the variable %s must be a text or null.", quotedName(name))
		}
		change[name] = text
	}
	return change, nil
}

// changed says how many variables were set and removed.
func changed(set, removed int) app.Text {
	done := counted(set, "%d environment variable of your application was set", "%d environment variables of your application were set")
	switch {
	case set == 0 && removed > 0:
		done = counted(removed, "%d environment variable of your application was removed", "%d environment variables of your application were removed")
	case removed > 0:
		done = app.Textf("%v, and %v", done, counted(removed, "%d was removed", "%d were removed"))
	}
	return app.Textf("%v. In effect from the next start.", done)
}

func (s *server) removeVariable(c *call) (response, error) {
	name := c.params.ByName("name")
	c.audit.Note("%s", namesOf(map[string]*string{name: nil}))
	if err := s.Settings.RemoveVariable(c.Request.Context(), c.owner(), c.id, name); err != nil {
		return response{}, err
	}
	return ok(numbered{statusOK, http.StatusOK, c.say("The environment variable %s was removed. In effect from the next start.", name)})
}

func (s *server) addApts(c *call) (response, error) {
	list, err := c.apts()
	if err != nil {
		return response{}, err
	}
	c.audit.Note("apt=%s", strings.Join(list, ","))
	w, err := s.Settings.AddApts(c.Request.Context(), c.owner(), c.id, list)
	if err != nil {
		return response{}, err
	}
	return ok(numbered{statusOK, http.StatusOK, c.say("Recorded: %s. %v", strings.Join(w.Names, ", "), remedy(w))})
}

func (s *server) dropApts(c *call) (response, error) {
	list, err := c.apts()
	if err != nil {
		return response{}, err
	}
	c.audit.Note("apt=%s", strings.Join(list, ","))
	names, err := s.Settings.DropApts(c.Request.Context(), c.owner(), c.id, list)
	if err != nil {
		return response{}, err
	}
	return ok(numbered{
		statusOK, http.StatusOK,
		c.say("Your application no longer asks for %s. Nothing was removed from this host.", strings.Join(names, ", ")),
	})
}

// apts returns the list of system packages that a request names: in its query,
// as one client sends it, or in the field apt, as a text or as an array.
func (c *call) apts() ([]string, error) {
	if query := c.Request.URL.Query()["apt"]; len(query) > 0 {
		return words(query), nil
	}
	f, err := c.fields()
	if err != nil {
		return nil, err
	}
	var list []string
	if json.Unmarshal(f["apt"], &list) != nil {
		list = make([]string, 1)
		if json.Unmarshal(f["apt"], &list[0]) != nil {
			return nil, app.Errorf(app.Invalid, "The field apt must be a text of names with commas between them, or an array of names.")
		}
	}
	return words(list), nil
}

// words are the words between the commas of texts.
func words(texts []string) []string {
	var list []string
	for _, text := range texts {
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				list = append(list, word)
			}
		}
	}
	return list
}

// remedy says what the host lacks, and what its owner can do. The command ends
// the sentence, to be copied.
func remedy(w app.Wishes) app.Text {
	command := "apt-get install " + strings.Join(w.Lacking, " ")
	switch {
	case len(w.Lacking) == 0:
		return app.Textf("This host has what is needed for that.")
	case w.Unknown:
		return app.Textf("berth installs no system packages, and cannot tell which of them this host has. On Debian its owner installs them with: %s", command)
	}
	return app.Textf("berth installs no system packages, and this host lacks %s. Its owner can install what is missing with: %s", strings.Join(w.Lacking, ", "), command)
}
