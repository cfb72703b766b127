//go:build !amd64 && !arm64

package sandbox

var helper []byte // there is none
