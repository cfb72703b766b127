package sandbox

import _ "embed" // of the helper

//go:embed helper/helper.arm64
var helper []byte
