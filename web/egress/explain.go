package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"

	"berth/app"
)

// Explain says for the user why a request, or the reading of its answer, failed: in words that
// hold no address, and so no secret.
func Explain(err error) app.Text {
	unknown, dns := errors.AsType[*net.DNSError](err)
	_, denied := errors.AsType[*Denied](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	network, failed := errors.AsType[net.Error](err)
	switch {
	case denied:
		return app.Textf("berth does not connect to it: it is no public address, or its port is neither 80 nor 443")
	case dns && unknown.IsNotFound:
		return app.Textf("the DNS does not know its name")
	case dns:
		return app.Textf("the DNS does not answer for its name")
	case unverified:
		return app.Textf("its certificate cannot be verified")
	case alert || noTLS || errors.Is(err, http.ErrSchemeMismatch):
		return app.Textf("the TLS connection to it failed")
	case tooLong:
		return app.Textf("its answer is too long")
	case errors.Is(err, context.DeadlineExceeded) || failed && network.Timeout():
		return app.Textf("it did not answer in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return app.Textf("it refused the connection")
	}
	return app.Textf("the connection to it failed")
}
