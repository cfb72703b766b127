package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"berth/app"
)

// maxVariables bounds the body of the variables in bytes: JSON may take six for
// one of a value.
const maxVariables = 512 << 10

// settings are the routes that change one application, or delete it.
type settings struct{ app.Settings }

func (s settings) setRAM(c *call) (response, error) {
	f := c.fields()
	mb := f.integer("ramMB")
	if f.err != nil {
		return response{}, f.err
	}
	c.audit.Note("ramMB=%d", mb)
	switch err := s.SetRAM(c.Request.Context(), c.owner(), c.id, app.MB(mb)); {
	case app.KindOf(err) == app.Exhausted, app.KindOf(err) == app.Unusable:
		// Clients that tell an amount of RAM the account may not have from a fault expect
		// the status 200, as that of app.Already.
		resp := c.failure(err)
		body := resp.body.(*errorBody)
		resp.status, body.StatusCode, body.Code = http.StatusOK, 0, http.StatusOK
		return resp, nil
	case err != nil:
		return response{}, err
	}
	return numbered(c.say("The RAM of your application was set to %d MB.", mb))
}

func (s settings) setProfile(c *call) (response, error) {
	f := c.fields()
	p := f.profile()
	if f.err != nil {
		return response{}, f.err
	}
	if p.Name != nil {
		c.audit.Note("name=%q", *p.Name)
	}
	if p.AvatarURL != nil {
		c.audit.Note("avatarURL=%q", *p.AvatarURL)
	}
	if err := s.SetProfile(c.Request.Context(), c.owner(), c.id, p); err != nil {
		return response{}, err
	}
	return numbered(c.say("The profile of your application was updated."))
}

func (s settings) delete(c *call) (response, error) {
	if err := s.Delete(c.Request.Context(), c.owner(), c.id); err != nil {
		return response{}, err
	}
	return ok(c.say("Your application was deleted."))
}

func (s settings) deleteAll(c *call) (response, error) {
	t := act(c, s.Delete)
	return t.answer(c, object{
		{"removealled", t.done}, // the hosted service's word
		{"alreadyOffline", t.already}, {"alreadyInProcess", t.busy},
	},
		counted(len(t.done), "%d application was deleted", "%d applications were deleted"),
		counted(len(t.already), "%d was gone already", "%d were gone already"))
}

func (s settings) variables(c *call) (response, error) {
	all, err := s.Variables(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := convert(all, func(v app.Variable) object { return object{{"name", v.Name}, {"value", v.Masked()}} })
	return ok(c.say("The environment variables of your application have been loaded."), member{"env", list})
}

// revealVariables shows the values, which the audit log remembers.
func (s settings) revealVariables(c *call) (response, error) {
	all, err := s.Variables(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := convert(all, func(v app.Variable) object { return object{{"name", v.Name}, {"value", v.Value}} })
	return ok(c.say("The environment variables of your application have been loaded."), member{"env", list})
}

func (s settings) setVariables(c *call) (response, error) {
	f := c.fieldsWithin(maxVariables)
	change := f.variables()
	if f.err != nil {
		return response{}, f.err
	}
	c.audit.Note("%s", namesOf(change))
	if err := s.SetVariables(c.Request.Context(), c.owner(), c.id, change); err != nil {
		return response{}, err
	}
	removed := 0
	for _, value := range change {
		if value == nil {
			removed++
		}
	}
	return numbered(c.translate(changed(len(change)-removed, removed)))
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

func (s settings) removeVariable(c *call) (response, error) {
	name := c.params.ByName("name")
	c.audit.Note("%s", namesOf(map[string]*string{name: nil}))
	if err := s.RemoveVariable(c.Request.Context(), c.owner(), c.id, name); err != nil {
		return response{}, err
	}
	return numbered(c.say("The environment variable %s was removed. In effect from the next start.", name))
}

func (s settings) addApts(c *call) (response, error) {
	list, err := apts(c)
	if err != nil {
		return response{}, err
	}
	w, err := s.AddApts(c.Request.Context(), c.owner(), c.id, list)
	if err != nil {
		return response{}, err
	}
	return numbered(c.say("Recorded: %s. %v", strings.Join(w.Names, ", "), remedy(w)))
}

func (s settings) dropApts(c *call) (response, error) {
	list, err := apts(c)
	if err != nil {
		return response{}, err
	}
	names, err := s.DropApts(c.Request.Context(), c.owner(), c.id, list)
	if err != nil {
		return response{}, err
	}
	return numbered(c.say("Your application no longer asks for %s. Nothing was removed from this host.", strings.Join(names, ", ")))
}

// apts returns the list of system packages that a request names: in its query,
// as one client sends it, or in the field apt, as a text or as an array.
func apts(c *call) ([]string, error) {
	texts := c.Request.URL.Query()["apt"]
	if len(texts) == 0 {
		f := c.fields()
		if f.err != nil {
			return nil, f.err
		}
		if json.Unmarshal(f.members["apt"], &texts) != nil {
			texts = make([]string, 1)
			if json.Unmarshal(f.members["apt"], &texts[0]) != nil {
				return nil, app.Errorf(app.Invalid, "The field apt must be a text of names with commas between them, or an array of names.")
			}
		}
	}
	var list []string
	for word := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	c.audit.Note("apt=%s", strings.Join(list, ","))
	return list, nil
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
