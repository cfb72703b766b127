// Package domain is the policy of names: which subdomains there can be and
// whose they are, who may claim a domain of his own, and what proves it.
//
// A subdomain is one account's at a time: the account's that asked for it by
// name, until it gives it back, or whose site brought it, until the site is
// gone. A domain may be claimed by any number of accounts, which costs nobody
// anything: it is verified for the one that shows its claim's value in the DNS,
// and then the claims of all others on it are void. A verified domain is free
// for another account's claim once its record is gone, and keeps its owner
// until that claim is verified.
//
// The package leads no traffic anywhere and touches nothing itself: what is
// remembered lies behind Records, the DNS behind Resolver.
package domain
