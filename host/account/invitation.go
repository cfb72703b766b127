package account

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// InvitationStore is what invitations need to have remembered.
type InvitationStore interface {
	// InsertOffer lets check decide, which gets the offers that the inviter has and the RAM that
	// all applications have. It fails with app.NotFound for an application that is not the
	// inviter's.
	InsertOffer(
		ctx context.Context, hash [32]byte, o app.Offer, check func(offers int, assigned app.MB) error,
	) (app.Offer, error)
	// Offers returns those of an inviter that can be accepted, 0 for those of all.
	Offers(ctx context.Context, inviter app.AccountID) ([]app.Offer, error)
	DeleteOffer(ctx context.Context, inviter app.AccountID, id int64) error
	// Offer returns app.NotFound for what cannot be accepted any more.
	Offer(ctx context.Context, hash [32]byte) (app.Offer, error)
	// Accept creates the account that build makes of the offer, with all that the offer brings,
	// and ends the offer, in one transaction.
	Accept(
		ctx context.Context, hash [32]byte, c app.Credential, build func(o app.Offer, assigned app.MB) (app.Account, error),
	) (app.Account, error)
	// Join gives an account the memberships, and ends the offer, in one transaction.
	Join(ctx context.Context, hash [32]byte, account app.AccountID) (app.Offer, error)
}

// How long an invitation can be accepted: at least, at most, and if nobody chooses.
const (
	LeastOffer   = 15 * time.Minute
	LongestOffer = 30 * 24 * time.Hour
	UsualOffer   = 24 * time.Hour
)

// maxOffers is how many invitations of one inviter wait at most.
const maxOffers = 50

// Invitations lets people into the host, and into teams, by links that work once. It is safe for
// concurrent use, keeps nothing in memory, and blocks as long as its store does.
type Invitations struct {
	store    InvitationStore
	signIns  *SignIns
	capacity func() app.MB // that applications may have together
}

// NewInvitations returns the invitations of a store to a host of that capacity now. Whoever accepts is
// signed in by signIns.
func NewInvitations(store InvitationStore, signIns *SignIns, capacity func() app.MB) *Invitations {
	return &Invitations{store, signIns, capacity}
}

// Invite makes an invitation by an account, the zero Account for the owner of the host, that can be
// accepted for lasts. It returns the text of its link, which nobody can read again. It fails with
// app.Invalid for an offer or a life that is none, app.Forbidden when an account offers RAM
// that is no administrator's, app.NotFound for an application that is not the account's, and
// app.Exhausted for more RAM than the host has left, or when too many invitations wait.
func (in *Invitations) Invite(ctx context.Context, by app.Account, o app.Offer, lasts time.Duration) (string, app.Offer, error) {
	if err := checkOffer(by, o, lasts); err != nil {
		return "", o, err
	}
	key := random()
	o.Inviter, o.By, o.Expires = by.ID, by.Name, time.Now().Add(lasts)
	o, err := in.store.InsertOffer(ctx, linkHash(key), o, func(offers int, assigned app.MB) error {
		if offers >= maxOffers {
			return app.Errorf(app.Exhausted, "you have %d open invitations, the most that an account may; revoke one that nobody needs", offers)
		}
		if capacity := in.capacity(); o.RAM > capacity-assigned {
			return app.Errorf(app.Exhausted, "applications have %d of the %d MB of RAM that the host can give; %d MB more do not fit", assigned, capacity, o.RAM)
		}
		return nil
	})
	return key, o, err
}

func checkOffer(by app.Account, o app.Offer, lasts time.Duration) error {
	switch {
	case lasts < LeastOffer || lasts > LongestOffer:
		return app.Errorf(app.Invalid, "an invitation can be accepted for 15 minutes to 30 days")
	case o.RAM == 0 && len(o.Grants) == 0:
		return app.Errorf(app.Invalid, "an invitation needs RAM for a new account, or an application with permissions")
	case o.RAM == 0 && (o.Disk != 0 || o.Apps != 0 || o.For != ""):
		return app.Errorf(app.Invalid, "an invitation without RAM makes no account; a name, disk space and a number of applications need RAM")
	case o.RAM != 0 && by.ID != 0 && !by.Admin:
		return app.Errorf(app.Forbidden, "only an administrator can invite to a new account")
	case len(o.Grants) > maxBound:
		return app.Errorf(app.Invalid, "an invitation can have %d applications at most", maxBound)
	}
	if o.RAM != 0 {
		if err := Change(new(app.Account), 0, app.AccountChange{RAM: &o.RAM, Disk: &o.Disk, Apps: &o.Apps}); err != nil {
			return err
		}
	}
	if o.For != "" {
		if err := CheckName(o.For); err != nil {
			return err
		}
	}
	return checkGrants(o.Grants)
}

func checkGrants(grants []app.Grant) error {
	sorted := slices.SortedFunc(slices.Values(grants), func(a, b app.Grant) int { return strings.Compare(string(a.App), string(b.App)) })
	for i, g := range sorted {
		if i > 0 && sorted[i-1].App == g.App {
			return app.Errorf(app.Invalid, "the application %q is named twice", g.App)
		}
		if g.Permissions == 0 || g.Permissions&^app.AllPermissions != 0 {
			return app.Errorf(app.Invalid, "name at least one permission for the application %q", g.App)
		}
	}
	return nil
}

// Invitations returns what an inviter has invited to and nobody has accepted yet, the oldest first;
// 0 for the invitations of all.
func (in *Invitations) Invitations(ctx context.Context, inviter app.AccountID) ([]app.Offer, error) {
	return in.store.Offers(ctx, inviter)
}

// Revoke ends an invitation of an inviter, 0 for anybody's, or fails with app.NotFound.
func (in *Invitations) Revoke(ctx context.Context, inviter app.AccountID, id int64) error {
	return in.store.DeleteOffer(ctx, inviter, id)
}

// Offer returns what a link brings. It fails with app.NotFound when nobody can accept it any more:
// it was used or revoked, it has expired, or its inviter could not make it now.
func (in *Invitations) Offer(ctx context.Context, key string) (app.Offer, error) {
	return in.store.Offer(ctx, linkHash(key))
}

// AcceptWithPassword is Accept for an account that signs in with a password. It fails with
// app.Invalid for a bad one, too, and with app.Unavailable when many sign in at once.
func (in *Invitations) AcceptWithPassword(ctx context.Context, key, name, password string, from app.Visitor) (app.SignedIn, error) {
	if _, err := in.Offer(ctx, key); err != nil { // before the work of a hash
		return app.SignedIn{}, err
	}
	if err := CheckPassword(name, password); err != nil {
		return app.SignedIn{}, err
	}
	hash, err := in.signIns.hasher.hash(ctx, password)
	if err != nil {
		return app.SignedIn{}, err
	}
	return in.Accept(ctx, key, name, app.Credential{Password: hash}, from)
}

// AcceptWithIdentity is Accept for an account that signs in by an identity. It fails with app.Conflict
// for one that signs in to an account already, too.
func (in *Invitations) AcceptWithIdentity(ctx context.Context, key, name string, who app.Identity, from app.Visitor) (app.SignedIn, error) {
	return in.Accept(ctx, key, name, app.Credential{Identity: &who}, from)
}

// NewPasskeyOptions are SignIns.NewPasskeyOptions for the account that a link makes, under a name.
// They fail with app.NotFound as Offer does, and app.Invalid for a bad name.
func (in *Invitations) NewPasskeyOptions(ctx context.Context, key, name string, at app.Origin) (string, error) {
	if _, err := in.Offer(ctx, key); err != nil {
		return "", err
	}
	if err := CheckName(name); err != nil {
		return "", err
	}
	return in.signIns.passkeyOptions(name, in.signIns.invitedHandle(key), nil, at, forInvited(key)), nil
}

// AcceptWithPasskey is Accept for an account that signs in with the passkey that a browser has made by
// NewPasskeyOptions, which is called device. It fails with app.Invalid for an answer that is none, too.
func (in *Invitations) AcceptWithPasskey(
	ctx context.Context, key, name string, at app.Origin, device string, response []byte, from app.Visitor,
) (app.SignedIn, error) {
	device, err := passkeyName(device)
	if err != nil {
		return app.SignedIn{}, err
	}
	handle := in.signIns.invitedHandle(key)
	made, err := in.signIns.register(owner{Account: app.Account{Name: name}, handle: handle}, at, forInvited(key), response)
	if err != nil {
		return app.SignedIn{}, err
	}
	made.Name, made.RP = device, at.Domain
	return in.Accept(ctx, key, name, app.Credential{Passkey: &made, PasskeyUser: handle}, from)
}

// Accept makes the account of an invitation, which signs in with c, gives it all that was offered,
// uses the link up, and goes on as SignIn does. Of several at once one succeeds. It fails with
// app.NotFound as Offer does, app.Invalid for a bad name, app.Conflict when it is taken,
// app.Unusable for an invitation without an account, and app.Exhausted when the host has too
// little RAM left; then nothing has changed.
func (in *Invitations) Accept(ctx context.Context, key, name string, c app.Credential, from app.Visitor) (app.SignedIn, error) {
	a, err := in.store.Accept(ctx, linkHash(key), c, func(o app.Offer, assigned app.MB) (app.Account, error) {
		switch {
		case o.RAM == 0:
			return app.Account{}, app.Errorf(app.Unusable, "this invitation makes no account; sign in with yours to accept it")
		case o.RAM > in.capacity()-assigned:
			return app.Account{}, app.Errorf(app.Exhausted, "the host has too little RAM left for this invitation; ask the person who sent it")
		}
		a, err := NewAccount(name, o.RAM)
		a.Limits = app.Limits{Disk: o.Disk, Apps: o.Apps}
		return a, err
	})
	if err != nil {
		return app.SignedIn{}, err
	}
	return in.signIns.beginWith(ctx, a, proof{password: c.Password}, from) // so far it has no second factor to ask for
}

// Join accepts the memberships of an invitation for an account that exists, and uses the link up;
// what the invitation has for a new account is lost. It fails with app.NotFound as Offer does, and
// app.Unusable when the invitation has no application, or one of the account's own; then nothing
// has changed.
func (in *Invitations) Join(ctx context.Context, key string, account app.AccountID) (app.Offer, error) {
	return in.store.Join(ctx, linkHash(key), account)
}

// linkHash is what is remembered of a link.
func linkHash(key string) [32]byte { return sha256.Sum256([]byte(cutText(key, maxToken))) }
