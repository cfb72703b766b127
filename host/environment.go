package host

import (
	"context"
	"slices"
	"strings"

	"berth/app"
)

// Variables returns the environment variables that the owner of an application
// set, by name, or app.NotFound. Like all that follows here it fails with
// app.Conflict while the application is deployed for the first time.
func (h *Host) Variables(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Variable, error) {
	var all []app.Variable
	err := h.change(ctx, owner, id, func(ctx context.Context, _ *unit) (err error) {
		all, err = h.Records.Variables(ctx, id)
		return err
	})
	if err != nil { // all may still be written to
		return nil, err
	}
	return all, nil
}

// SetVariables changes variables, in effect from the next start: see
// ChangeVariables, whose errors it returns.
func (h *Host) SetVariables(ctx context.Context, owner app.AccountID, id app.ID, change map[string]*string) error {
	return h.changeVariables(ctx, owner, id, func(set map[string]string) error { return ChangeVariables(set, change) })
}

// RemoveVariable removes one, in effect from the next start, or fails with
// app.NotFound.
func (h *Host) RemoveVariable(ctx context.Context, owner app.AccountID, id app.ID, name string) error {
	return h.changeVariables(ctx, owner, id, func(set map[string]string) error { return RemoveVariables(set, name) })
}

func (h *Host) changeVariables(ctx context.Context, owner app.AccountID, id app.ID, change func(map[string]string) error) error {
	return h.change(ctx, owner, id, func(ctx context.Context, u *unit) error {
		err := h.Records.ChangeVariables(ctx, id, change)
		if err == nil {
			u.log.Info("environment variables changed")
		}
		return err
	})
}

// AddApts adds system packages to those that an application asks for and
// returns what the host lacks of these. It fails with app.Invalid.
func (h *Host) AddApts(ctx context.Context, owner app.AccountID, id app.ID, list []string) (app.Wishes, error) {
	wishes, err := h.Wish(list)
	if err != nil {
		return app.Wishes{}, err
	}
	return wishes, h.change(ctx, owner, id, func(_ context.Context, u *unit) error {
		all, err := h.Wish(slices.Concat(u.app.Apts, wishes.Names))
		if err != nil {
			return err
		}
		return u.storeApts(all.Names)
	})
}

// DropApts removes system packages from those that an application asks for and
// returns their names. It fails with app.Invalid, and with app.Already when it
// asks for none of them.
func (h *Host) DropApts(ctx context.Context, owner app.AccountID, id app.ID, list []string) ([]string, error) {
	wishes, err := h.Wish(list)
	if err != nil {
		return nil, err
	}
	return wishes.Names, h.change(ctx, owner, id, func(_ context.Context, u *unit) error {
		left := slices.DeleteFunc(slices.Clone(u.app.Apts), func(name string) bool { return slices.Contains(wishes.Names, name) })
		if len(left) == len(u.app.Apts) {
			return app.Errorf(app.Already, "the application does not ask for %s", strings.Join(wishes.Names, ", "))
		}
		return u.storeApts(left)
	})
}

// change runs f on the goroutine of an application that exists, so that it
// cannot be deleted, and its name given to another account's, meanwhile.
func (h *Host) change(ctx context.Context, owner app.AccountID, id app.ID, f func(context.Context, *unit) error) error {
	return h.ask(ctx, owner, id, func(u *unit, reply func(error)) {
		if err := u.refuse(); err != nil {
			reply(err)
			return
		}
		reply(f(context.WithoutCancel(ctx), u))
	})
}

// setApts replaces the system packages that are asked for, as a commit does.
func (u *unit) setApts(apts []string) func(func(error)) {
	return func(reply func(error)) { reply(u.storeApts(apts)) }
}

func (u *unit) storeApts(apts []string) error {
	err := u.record("the system packages", func(ctx context.Context) error { return u.h.Records.SetApts(ctx, u.id, apts) })
	if err == nil {
		u.app.Apts = apts
	}
	return err
}

// buildVariables are the variables of a step of a build. A build gets no
// NODE_ENV: with "production" npm, pnpm and Yarn leave out the packages that
// builds need. Before its first deployment is done an application has none.
func (h *Host) buildVariables(ctx context.Context, id app.ID) ([]app.Variable, error) {
	all, err := h.Records.Variables(context.WithoutCancel(ctx), id)
	if app.KindOf(err) == app.NotFound {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(v app.Variable) bool { return v.Name == "NODE_ENV" }), err
}
