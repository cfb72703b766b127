package sandbox

import _ "embed" // of the helper

//go:embed helper/helper.amd64
var helper []byte
