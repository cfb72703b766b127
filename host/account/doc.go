// Package account is the policy of accounts: what a name, a plan and a locale
// may be, who a token belongs to, who may do what with another's application,
// whether more RAM fits, links that open one file without a token, and how people sign in:
// passwords, second factors, sessions.
//
// It touches nothing itself: what is remembered lies behind Store,
// SignInStore, FactorStore and TeamStore. No token text is ever stored, logged or put into an error.
package account
