package web

import (
	"net/http"

	"berth/app"
)

// statusOf is the one table from the kind of an error to the HTTP status.
var statusOf = [...]int{
	app.Internal:     http.StatusInternalServerError,
	app.Invalid:      http.StatusBadRequest,
	app.Unauthorized: http.StatusUnauthorized,
	app.Forbidden:    http.StatusForbidden,
	app.NotFound:     http.StatusNotFound,
	app.Already:      http.StatusOK, // clients tell it from success by the field status
	app.Conflict:     http.StatusConflict,
	app.TooLarge:     http.StatusRequestEntityTooLarge,
	app.Unusable:     http.StatusUnprocessableEntity,
	app.Exhausted:    http.StatusUnprocessableEntity,
	app.NoSpace:      http.StatusServiceUnavailable, // the host's fault, and no limit of the account's
	app.Limited:      http.StatusTooManyRequests,
	app.Unavailable:  http.StatusServiceUnavailable,
}

// StatusOf returns the HTTP status of the errors of a kind. Both edges call it.
func StatusOf(k app.Kind) int {
	if k < 0 || int(k) >= len(statusOf) {
		return http.StatusInternalServerError
	}
	return statusOf[k]
}
