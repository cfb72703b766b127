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

// Explain makes of an error of a request, or of reading its answer, an *app.Error that says
// why without any address. Denied is Forbidden, all others are Unavailable. It keeps the cause
// to itself, for that may hold the address.
func Explain(err error) error {
	unknown, dns := errors.AsType[*net.DNSError](err)
	_, denied := errors.AsType[*Denied](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	network, failed := errors.AsType[net.Error](err)
	switch {
	case denied:
		return app.Errorf(app.Forbidden, "berth does not connect to it: it is no public address, or its port is neither 80 nor 443")
	case dns && unknown.IsNotFound:
		return app.Errorf(app.Unavailable, "the DNS does not know its name")
	case dns:
		return app.Errorf(app.Unavailable, "the DNS does not answer for its name")
	case unverified:
		return app.Errorf(app.Unavailable, "its certificate cannot be verified")
	case alert || noTLS || errors.Is(err, http.ErrSchemeMismatch):
		return app.Errorf(app.Unavailable, "the TLS connection to it failed")
	case tooLong:
		return app.Errorf(app.Unavailable, "its answer is too long")
	case errors.Is(err, context.DeadlineExceeded) || failed && network.Timeout():
		return app.Errorf(app.Unavailable, "it did not answer in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return app.Errorf(app.Unavailable, "it refused the connection")
	}
	return app.Errorf(app.Unavailable, "the connection to it failed")
}
