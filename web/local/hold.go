package local

import (
	"context"
	"net/http"
)

// HoldPath is where a daemon is told by PUT that the hold of its host was changed in the
// database.
const HoldPath = HostPath + "/hold"

// HoldChanged tells the daemon whose runtime directory is dir that the hold was set or
// dropped. With a hold it waits until nothing runs; without one what is wanted online starts
// afterwards. Its errors are those of Changed.
func HoldChanged(ctx context.Context, dir string) error {
	return call(ctx, dir, http.MethodPut, HoldPath, nil)
}
