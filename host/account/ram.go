package account

import "berth/app"

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

// CheckRAM decides whether an application may have want, in an account with
// total of which used is assigned to its other applications: app.Unusable below
// least, app.Exhausted when it does not fit.
func CheckRAM(total, used, want, least app.MB) error {
	if want < least {
		return app.Errorf(app.Unusable, "an application needs at least %d MB of RAM; %d MB are too few", least, want)
	}
	if want > total-used { // a sum could overflow: want is whatever the user wrote
		return app.Errorf(app.Exhausted, "the account has %d MB, %d MB are assigned; %d MB more do not fit", total, used, want)
	}
	return nil
}
