package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/app"
	"berth/db"
)

// PasskeysElsewhere names the passkeys that do not work at the address of the panel, because they
// were made at another one, and their owners; "" for none, and while no address is set.
func PasskeysElsewhere(ctx context.Context, d *db.DB, baseURL string) (string, error) {
	here := app.OriginOf(baseURL)
	if here.URL == "" {
		return "", nil
	}
	all, err := d.SignIns.Passkeys(ctx, 0)
	if err != nil {
		return "", err
	}
	owners, domains, n := map[string]bool{}, map[string]bool{}, 0
	for _, k := range all {
		if k.RP == here.Domain {
			continue
		}
		a, err := d.Accounts.Account(ctx, k.Account)
		if err != nil {
			return "", err
		}
		owners[a.Name], domains[k.RP] = true, true
		n++
	}
	if n == 0 {
		return "", nil
	}
	list := func(words map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(words)), ", ") }
	if n == 1 {
		return fmt.Sprintf("a passkey of %s was made at %s, and does not work at %s", list(owners), list(domains), here.URL), nil
	}
	return fmt.Sprintf("%d passkeys of %s were made at %s, and do not work at %s", n, list(owners), list(domains), here.URL), nil
}

// PasskeysHint is what their owners can do.
const PasskeysHint = "their owners sign in with a recovery code or a code of an app, and make new ones; berth account reset lets in who has neither"
