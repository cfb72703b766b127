#!/bin/sh
# Builds bot.jar from src. Needs a JDK of version 17 or newer; the host does not.
set -eu
cd "$(dirname "$0")"
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
javac --release 11 -g:none -d "$classes" src/Bot.java
jar --create --file bot.jar --main-class Bot --date 2026-01-01T00:00:00Z -C "$classes" Bot.class
sha256sum bot.jar
