package app

import "time"

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
