package app

import "time"

// Subdomain is a name below the host's own domain that an account has. A
// site's ID is its subdomain.
type Subdomain struct {
	ID        ID
	Account   AccountID
	Used      bool // a site has it
	Reserved  bool // its owner asked for it by name; otherwise it goes with its site
	CreatedAt time.Time
}

// DomainStatus is what the last look into the DNS said of a domain.
type DomainStatus string

// The states of a domain.
//
//	          verify, the record is there
//	unverified --------------------------> verified
//	    |                                   |   ^
//	    | verify, it is not                 v   | verify, it is there
//	    +--------------------------------> failed
const (
	DomainUnverified DomainStatus = "unverified" // nobody looked yet
	DomainVerified   DomainStatus = "verified"   // for one account at most
	DomainFailed     DomainStatus = "failed"     // the record was not there
)

// Domain is an account's claim to a domain of its own, for one of its sites.
type Domain struct {
	Name      string // lower case, in ASCII
	Account   AccountID
	App       ID
	Status    DomainStatus
	Proof     string // what the TXT record must hold; unguessable, each claim has its own
	CreatedAt time.Time
	CheckedAt time.Time // of the last look; zero before the first
	Records   []Record  // what the owner of the domain has to enter in the DNS
}

// Record is one record of the DNS.
type Record struct {
	Type    string // TXT, A, AAAA or CNAME
	Name    string // whole, without a dot at the end
	Content string
}

// NameList is every name of an account, oldest first.
type NameList struct {
	Subdomains []Subdomain
	Domains    []Domain
}
