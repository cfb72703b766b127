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

// DomainStatus is what the last query of the DNS said of a domain.
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
	CheckedAt time.Time // of the last query; zero before the first
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

// Certificate is what is known of one name's certificate by ACME.
type Certificate struct {
	Name       string
	Chain, Key []byte // PEM, the leaf first; empty before there is one
	Begins     time.Time
	Expires    time.Time
	Ordered    time.Time // when one was last asked for while there was none; zero: never
	Next       time.Time // when it is asked for, or renewed, at the earliest
	Failures   int       // since the last success
	Problem    string    // why there is none, or none that is new; a sentence without a full stop
}

// CertificateStatus is how a name's certificate is.
type CertificateStatus string

// The states of a certificate.
const (
	CertificatePending CertificateStatus = "pending" // its turn has not come
	CertificateIssued  CertificateStatus = "issued"  // and valid, whatever came of a renewal
	CertificateFailed  CertificateStatus = "failed"  // refused; it is tried again
	CertificateExpired CertificateStatus = "expired"
)

// Status is how the certificate is at a time.
func (c Certificate) Status(now time.Time) CertificateStatus {
	switch {
	case len(c.Chain) > 0 && now.Before(c.Expires):
		return CertificateIssued
	case len(c.Chain) > 0:
		return CertificateExpired
	case c.Failures > 0:
		return CertificateFailed
	}
	return CertificatePending
}
