package account

import (
	"slices"
	"strings"

	"berth/app"
)

// Plans are the names that clients know; some fail on any other. A plan is a
// label and limits nothing.
var Plans = []string{"Free", "Carbon", "Gold", "Platinum", "Diamond", "Krypton", "Sapphire", "Safira", "Ruby"}

// DefaultPlan is the plan of a new account.
const DefaultPlan = "Diamond"

// MaxRAM is the most an account can be given: far above any host, and far
// below where counting bytes overflows.
const MaxRAM app.MB = 1 << 30

// NewAccount returns an account with the default plan and locale, to be stored.
// It fails with app.Invalid for a bad name or RAM.
func NewAccount(name string, ram app.MB) (app.Account, error) {
	if err := CheckName(name); err != nil {
		return app.Account{}, err
	}
	if err := CheckTotal(ram, 0); err != nil {
		return app.Account{}, err
	}
	return app.Account{Name: name, TotalRAM: ram, Plan: DefaultPlan, Locale: app.Locales[0]}, nil
}

// CheckName fails with app.Invalid unless name can be an account's: 1 to 32
// characters of a-z, 0-9, '.', '_' and '-', the first a letter, so that a name
// is never taken for the number of an account.
func CheckName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-"
	if name == "" || len(name) > 32 || name[0] < 'a' || name[0] > 'z' || strings.Trim(name, allowed) != "" {
		return app.Errorf(app.Invalid, "%q cannot be the name of an account: 1 to 32 of a-z 0-9 . _ - are allowed, and the first must be a letter", name)
	}
	return nil
}

// CheckPlan returns plan as clients spell it, or app.Invalid. Case is ignored.
func CheckPlan(plan string) (string, error) {
	i := slices.IndexFunc(Plans, func(known string) bool { return strings.EqualFold(known, plan) })
	if i < 0 {
		return "", app.Errorf(app.Invalid, "there is no plan %q; there are %s", plan, strings.Join(Plans, ", "))
	}
	return Plans[i], nil
}

// CheckLocale fails with app.NotFound unless locale is one of app.Locales:
// clients expect that kind for it.
func CheckLocale(locale string) error {
	if !slices.Contains(app.Locales, locale) {
		return app.Errorf(app.NotFound, "there is no locale %q; there are %s", locale, strings.Join(app.Locales, ", "))
	}
	return nil
}

// CheckTotal decides whether an account whose applications have assigned may
// be given total: app.Invalid when it is no sensible amount, app.Conflict when
// it is below what is assigned. An account may be larger than the host.
func CheckTotal(total, assigned app.MB) error {
	if total < 1 || total > MaxRAM {
		return app.Errorf(app.Invalid, "the RAM of an account must be from 1 to %d MB, not %d", MaxRAM, total)
	}
	if total < assigned {
		return app.Errorf(app.Conflict, "its applications have %d MB assigned; the account cannot be set to %d MB", assigned, total)
	}
	return nil
}

// The most that the limits of an account can be: far above any host.
const (
	maxCPU   = 1 << 20 // percent of one processor
	maxCount = 1 << 20 // applications, builds, backups
)

// Change makes the changes of c to an account whose applications have assigned. It fails
// with CheckTotal's errors, and app.Invalid for limits that are none.
//
// Limits beside the RAM may be below what the account has: it keeps that, and gets no more.
func Change(a *app.Account, assigned app.MB, c app.AccountChange) error {
	if c.RAM != nil {
		if err := CheckTotal(*c.RAM, assigned); err != nil {
			return err
		}
		a.TotalRAM = *c.RAM
	}
	if c.Disk != nil {
		if *c.Disk < 0 || *c.Disk > MaxRAM {
			return app.Errorf(app.Invalid, "the disk space of an account must be from 0 to %d MB, not %d; 0 is no limit", MaxRAM, *c.Disk)
		}
		a.Limits.Disk = *c.Disk
	}
	for _, limit := range []struct {
		to   *int
		want *int
		most int
		what app.Text
	}{
		{&a.Limits.Apps, c.Apps, maxCount, app.Words("the number of applications")},
		{&a.Limits.CPU, c.CPU, maxCPU, app.Words("the processor share in percent")},
		{&a.Limits.Builds, c.Builds, maxCount, app.Words("the number of builds at once")},
		{&a.Limits.Backups, c.Backups, maxCount, app.Words("the number of backups")},
	} {
		if limit.want == nil {
			continue
		}
		if *limit.want < 0 || *limit.want > limit.most {
			return app.Errorf(app.Invalid, "%s of an account must be from 0 to %d, not %d; 0 is no limit", limit.what, limit.most, *limit.want)
		}
		*limit.to = *limit.want
	}
	return nil
}

// RAMRule is what the RAM of applications must be.
type RAMRule struct{ Least app.MB }

// Check decides whether an application may have want, in an account with total of which
// used is assigned to its other applications: app.Unusable below Least, app.Exhausted
// when it does not fit.
func (r RAMRule) Check(total, used, want app.MB) error {
	if want < r.Least {
		return app.Errorf(app.Unusable, "an application needs at least %d MB of RAM; %d MB are too few", r.Least, want)
	}
	if want > total-used { // a sum could overflow: want is whatever the user wrote
		return app.Errorf(app.Exhausted, "the account has %d MB, %d MB are assigned; %d MB more do not fit", total, used, want)
	}
	return nil
}
