#!/bin/sh
# Brings what make needs to a fresh Debian, then runs it: ./do demo, ./do test, ./do (all targets).
# As root it installs Debian packages. A Go that is too old, or missing, it downloads into .cache.
set -eu
cd "$(dirname "$0")"

# fail says why, and what to do about it.
fail() {
	echo "do: $*" >&2
	exit 1
}

# need installs the packages of the commands that are missing: need COMMAND:PACKAGE...
need() {
	missing=
	for pair; do
		command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
	done
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086 # words
	test/scripts/install $missing || fail "cannot install$missing: the lines above say why"
}

# fetch downloads one archive whose sum is known: fetch URL FILE
fetch() {
	curl -fsSL --retry 2 --connect-timeout 20 -o "$part/$2" "$1" || return 1
	sum=$(grep "  $2\$" test/scripts/go.sha256) || fail "test/scripts/go.sha256 has no sum of $2"
	(cd "$part" && echo "$sum" | sha256sum -c --quiet - >&2) || fail "$1 is not what it was: its SHA-256 is another"
}

# toolchain downloads the Go of go.mod into $home: from its own site, or as the toolchain
# module of a proxy, whose files have no mode.
toolchain() {
	case $(uname -m) in
	x86_64) arch=amd64 ;;
	aarch64) arch=arm64 ;;
	*) fail "there is no Go here for the processor $(uname -m): install Go $version" ;;
	esac
	need curl:curl update-ca-certificates:ca-certificates
	echo "do: downloading Go $version into $home"
	part=.cache/go.part
	rm -rf "$part"
	mkdir -p "$part"
	trap 'rm -rf "$part"' EXIT
	name=go$version.linux-$arch
	if fetch "$site/$name.tar.gz" "$name.tar.gz"; then
		tar -C "$part" -xzf "$part/$name.tar.gz"
		mv "$part/go" "$home"
	else
		proxy=${GOPROXY:-}
		proxy=${proxy%%[,|]*}
		case $proxy in
		http://* | https://*) ;;
		*) fail "cannot download Go from $site: install Go $version, or set GOPROXY to the address of a Go module proxy" ;;
		esac
		need unzip:unzip
		name=v0.0.1-$name
		fetch "${proxy%/}/golang.org/toolchain/@v/$name.zip" "$name.zip" || fail "cannot download Go from $site, nor from $proxy: install Go $version"
		unzip -q "$part/$name.zip" -d "$part"
		chmod +x "$part/golang.org/toolchain@$name"/bin/* "$part/golang.org/toolchain@$name"/pkg/tool/*/*
		mv "$part/golang.org/toolchain@$name" "$home"
	fi
	rm -rf "$part" # no trap outlives exec
}

site=${GO_SITE:-https://go.dev/dl}
need make:make git:git
oldest=$(sed -n 's/^go //p' go.mod)
version=$(sed -n 's/^toolchain go//p' go.mod)
home=$PWD/.cache/go$version
PATH=$PATH:/usr/local/go/bin
have=$(go env GOVERSION 2>/dev/null | sed 's/^go//') || have=
if [ -z "$have" ] || [ "$(printf '%s\n' "$oldest" "$have" | sort -V | head -n 1)" != "$oldest" ]; then
	[ -x "$home/bin/go" ] || toolchain
	PATH=$home/bin:$PATH
fi
export PATH
exec make "$@"
