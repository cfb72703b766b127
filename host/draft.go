package host

import (
	"context"
	"strconv"
	"strings"

	"berth/app"
)

// checkFirst refuses variables that no application may have.
func checkFirst(all []app.Variable) error {
	if len(all) == 0 {
		return nil
	}
	change := make(map[string]*string, len(all))
	for _, v := range all {
		change[v.Name] = &v.Value
	}
	return ChangeVariables(map[string]string{}, change)
}

// Draft judges a spooled upload as Upload would, as far as that is known before anything is
// unpacked: its discloud.config with fields in the place of its lines, or a suggestion where it
// has none and fields is nil. It refuses variables of app.WithFirst that no application may
// have. The file stays the caller's.
func (h *Host) Draft(ctx context.Context, owner app.Account, file string, fields app.ConfigField) (app.Draft, error) {
	if err := checkFirst(app.FirstOf(ctx).Variables); err != nil {
		return app.Draft{}, err
	}
	if err := h.looks.Acquire(ctx, 1); err != nil {
		return app.Draft{}, err
	}
	defer h.looks.Release(1)
	return h.Staging.Look(file, fields, func(d *app.Draft, cfg app.Config, files app.Files) error {
		if !d.Found && fields == nil {
			h.suggest(d, files, nameOfFile(app.FileNameOf(ctx)))
			return nil
		}
		return h.judge(d, owner, cfg, files)
	})
}

// suggest fills in what an upload without a discloud.config shows. A page is no bot.
func (h *Host) suggest(d *app.Draft, files app.Files, name string) {
	d.Fields = app.ConfigField{"TYPE": app.Bot.String(), "NAME": name, "RAM": strconv.FormatInt(int64(h.RAMDefault), 10), "AUTORESTART": "true"}
	if h.Suggest == nil {
		return
	}
	cfg, plan, err := h.Suggest(app.Config{Type: app.Bot}, files)
	if err != nil {
		cfg, plan, err = h.Suggest(app.Config{Type: app.Site}, files)
	}
	if err != nil {
		return // the form says what is missing once it is filled in
	}
	d.Lang = plan.Code.Lang
	d.Fields["TYPE"], d.Fields["MAIN"], d.Fields["START"], d.Fields["BUILD"] = cfg.Type.String(), cfg.Main, cfg.Start, cfg.Build
	if cfg.Type == app.Site {
		d.Fields["ID"] = h.freeSubdomain(name)
	}
}

// freeSubdomain makes a subdomain of a name; "" when that is none, or somebody has it.
func (h *Host) freeSubdomain(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	id := strings.Join(words, "-")
	if h.CheckSubdomain(id) != nil || h.taken(app.ID(id)) {
		return ""
	}
	return id
}

// taken reports whether an application has an ID.
func (h *Host) taken(id app.ID) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.units[id] != nil
}

// judge adds the problems of a config that can be read, each at its field.
func (h *Host) judge(d *app.Draft, owner app.Account, cfg app.Config, files app.Files) error {
	bad := map[string]bool{}
	for _, p := range d.Problems {
		bad[p.Field] = true
	}
	add := func(field string, err error) error {
		if err == nil || bad[field] {
			return nil
		}
		if kind := app.KindOf(err); kind == app.Internal {
			return err
		}
		bad[field] = true
		d.Problems = append(d.Problems, app.DraftProblem{Field: field, Text: app.Textf("%v", err)})
		return nil
	}
	if cfg.Type == app.Site {
		if err := add("ID", h.subdomain(strings.ToLower(cfg.ID))); err != nil {
			return err
		}
	}
	plan, err := h.Plan(cfg, true, files, "")
	field := ""
	if cfg.Start == "" && (cfg.Main == "" || !files.Exists(cfg.Main)) {
		field = "MAIN"
	}
	if bad["TYPE"] || bad["START"] || bad["BUILD"] {
		err = nil // it is of what could not be read
	}
	if err := add(field, err); err != nil {
		return err
	}
	d.Lang = plan.Code.Lang
	use := app.Use{}
	for _, s := range h.Apps(owner.ID) {
		use.RAM += s.Charged()
		use.Apps++
	}
	if err := add("RAM", h.admit(owner.TotalRAM, use.RAM, h.ramOf(cfg), plan.Code)); err != nil {
		return err
	}
	return add("", admitNew(owner, use))
}

// subdomain judges the ID of a new site.
func (h *Host) subdomain(id string) error {
	if id == "" {
		return app.Errorf(app.Unusable, "a site needs an ID, its subdomain")
	}
	if err := h.CheckSubdomain(id); err != nil {
		return err
	}
	if h.taken(app.ID(id)) {
		return app.Errorf(app.Conflict, "the id %q is taken", id)
	}
	return nil
}
