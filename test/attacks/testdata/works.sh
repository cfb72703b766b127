#!/bin/sh
# Makes works.jar of Works.java, for machines that have Java but no compiler.
set -eu
cd "$(dirname "$0")"
classes=$(mktemp -d)
javac --release 11 -d "$classes" Works.java
jar --create --file works.jar --date 2000-01-01T00:00:00Z --main-class Works -C "$classes" .
rm -r "$classes"
