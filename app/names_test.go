package app

import (
	"testing"
	"time"
)

func TestCertificateStatus(t *testing.T) {
	now := time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)
	for want, all := range map[CertificateStatus][]Certificate{
		CertificatePending: {{}, {Problem: "as many as this host may ask for in an hour"}},
		CertificateFailed:  {{Failures: 1, Problem: "refused"}},
		CertificateIssued:  {{Chain: []byte("x"), Expires: now.Add(time.Second)}, {Chain: []byte("x"), Expires: now.Add(time.Hour), Failures: 3}},
		CertificateExpired: {{Chain: []byte("x"), Expires: now}, {Chain: []byte("x"), Expires: now.Add(-time.Hour), Failures: 3}},
	} {
		for _, c := range all {
			if got := c.Status(now); got != want {
				t.Errorf("%+v is %s, want %s", c, got, want)
			}
		}
	}
}
