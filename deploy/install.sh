#!/bin/sh
# Installs berth on this machine, or upgrades it; programs run on during an upgrade.
#   curl -fsSL BASE/install.sh | sudo sh
# On Debian and Ubuntu it installs the package, elsewhere the binary with its units. It installs
# nothing that the signed manifest at BASE does not name, and no version older than the one that
# is there. It can be run again.
#   BERTH_BASE  another address with the same files, such as a mirror
#   BERTH_KEY   the public key of minisign's that has signed the manifest there
#   TMPDIR      where to download to (/var/tmp)
# The last line calls a function, so that a download of this file that was cut does nothing.
# "make release" puts the address and the key in the place of @BASE@ and @KEY@.
set -eu

# fail says why nothing is installed, in one sentence.
fail() {
	echo "install.sh: cannot install berth: $*" >&2
	exit 1
}

say() { echo "install.sh: $*"; }

has() { command -v "$1" >/dev/null 2>&1; }

# lookAround refuses machines on which berth cannot be, and finds out how it is installed here:
# arch, debian, unit, binary, current.
lookAround() {
	[ "$(id -u)" = 0 ] || fail "it needs root: curl -fsSL $base/install.sh | sudo sh"
	[ "$(uname -s)" = Linux ] || fail "this is $(uname -s), and berth needs Linux"
	case $(uname -m) in
	x86_64) arch=amd64 ;;
	aarch64) arch=arm64 ;;
	*) fail "there is no berth for the processor $(uname -m), only for x86_64 and aarch64" ;;
	esac
	debian=
	if has dpkg && has apt-get; then debian=yes; fi
	for tool in mktemp sha256sum base64 df flock tar gzip; do
		has "$tool" || fail "the command $tool is missing: install it with this system's package manager"
	done
	has curl || has wget || fail "neither curl nor wget is there: install one of them with this system's package manager"
	[ -n "$debian" ] || [ -d /run/systemd/system ] || fail "this machine does not run systemd: unpack the archive from $base and let its own service manager run berth serve as root"

	binary='' current=''
	for unit in /etc/systemd/system/berth.service /usr/lib/systemd/system/berth.service; do
		[ -z "$binary" ] || break
		[ ! -f "$unit" ] || binary=$(sed -n 's/^ExecStart=\([^ ]*\) serve.*/\1/p' "$unit")
	done
	if [ -n "$binary" ] && [ -x "$binary" ]; then
		current=$("$binary" --version | sed -n '1s/^berth v\{0,1\}\([^ ,]*\).*/\1/p')
		[ -n "$current" ] || fail "$binary, which the service starts, does not run: remove it and run this again"
		number "$current" || fail "$binary is a development build ($current), and nothing tells whether a release is newer: stop it and remove it first with berth uninstall, which keeps the data"
	fi
}

# number reports whether a text is a version: three numbers.
number() { printf '%s\n' "$1" | grep -Eqx '(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}'; }

# room refuses a directory with too little space: room DIRECTORY MEGABYTES
room() {
	free=$(df -Pk "$1" | sed -n '2s/^.* \([0-9][0-9]*\)  *[0-9]*% .*$/\1/p')
	[ "${free:-0}" -ge $(($2 * 1024)) ] || fail "$1 has $((${free:-0} / 1024)) MB left, and this needs $2 MB"
}

# fetch downloads a file into $work: fetch NAME MEGABYTES. The limit is one of the shell's own, so
# that it holds for curl and wget.
fetch() {
	said=$(
		exec 2>&1
		ulimit -f $(($2 * 2048))
		if has curl; then
			curl -fsSL --proto "=$scheme" --proto-redir "=$scheme" --retry 2 --connect-timeout 20 --speed-limit 1000 --speed-time 60 -o "$work/$1" "$base/$1" || exit
		else
			wget -nv --tries=3 --timeout=60 -O "$work/$1" "$base/$1" || exit
		fi
	) && return
	fail "cannot download $base/$1, or it has more than $2 MB: $(printf '%s' "$said" | tail -n 1)"
}

# newOpenSSL reports whether there is one that verifies Ed25519 of a whole file (3.0 and newer).
newOpenSSL() {
	case $(openssl version 2>/dev/null) in
	"OpenSSL 0."* | "OpenSSL 1."* | LibreSSL* | '') return 1 ;;
	esac
}

# verifier brings what verifies signatures.
verifier() {
	for package in openssl minisign; do
		if has minisign || newOpenSSL; then return; fi
		[ -n "$debian" ] || break
		say "neither minisign nor OpenSSL 3 is there: apt-get install $package"
		said=$(apt-get -qq update 2>&1 </dev/null && apt-get -qq install -y --no-install-recommends "$package" 2>&1 </dev/null) ||
			say "that failed: $(printf '%s' "$said" | tail -n 1)"
	done
	has minisign || newOpenSSL || fail "nothing here verifies its signature: install minisign, or OpenSSL 3"
}

# signed reports whether $work/manifest.minisig is the signature of $work/manifest by $key.
signed() {
	if has minisign; then
		minisign -Vqm "$work/manifest" -P "$key" >/dev/null 2>&1
		return
	fi
	# The key and the signature are algorithm (2 bytes), id (8), and what Ed25519 has.
	printf '%s' "$key" | base64 -d >"$work/key" 2>/dev/null || return
	sed -n 2p "$work/manifest.minisig" | tr -d '\r' | base64 -d >"$work/signature" 2>/dev/null || return
	if [ "$(wc -c <"$work/key")" -ne 42 ] || [ "$(wc -c <"$work/signature")" -ne 74 ]; then return 1; fi
	[ "$(head -c 10 "$work/key" | tail -c 8 | base64)" = "$(head -c 10 "$work/signature" | tail -c 8 | base64)" ] || return
	message=$work/manifest
	case $(head -c 2 "$work/signature") in
	Ed) ;;
	ED)
		message=$work/message
		openssl dgst -blake2b512 -binary -out "$message" "$work/manifest" >/dev/null 2>&1 || return
		;;
	*) return 1 ;;
	esac
	# A public key of Ed25519 as openssl reads it begins with the same 12 bytes (RFC 8410).
	{
		printf '\060\052\060\005\006\003\053\145\160\003\041\000'
		tail -c 32 "$work/key"
	} >"$work/key.der"
	tail -c 64 "$work/signature" >"$work/signature.raw"
	openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" -rawin -in "$message" -sigfile "$work/signature.raw" >/dev/null 2>&1
}

# download brings a file that the manifest names, and proves that it is that one: download NAME
download() {
	want=
	while read -r sum file; do
		[ "$file" != "$1" ] || want=$sum
	done <"$work/manifest"
	[ -n "$want" ] || fail "the release $version has no $1"
	fetch "$1" 512
	is=$(sha256sum <"$work/$1")
	[ "${is%% *}" = "$want" ] || fail "$base/$1 is not what the signed manifest names: its SHA-256 is another"
}

# installPackage lets apt-get install the package; on an upgrade that lets the new berth follow
# the one that runs.
installPackage() {
	room "$work" 150
	room /usr 150
	say "download $base/$name, and call: apt-get install ./$name"
	download "$name"
	chmod 711 "$work" # apt-get reads it as a user of its own
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update </dev/null || say "the lists of packages are not new: what berth recommends may be left out"
	apt-get -q -o Dpkg::Use-Pty=0 install -y "$work/$name" </dev/null || fail "apt-get refuses the package, as it says above"
}

# installArchive lets the new berth install itself.
installArchive() {
	prefix=${binary%/bin/berth}
	[ "$prefix" != "$binary" ] || [ -z "$binary" ] || fail "the service starts $binary, which berth install has not put there"
	prefix=${prefix:-/usr/local}
	room "$work" 150
	[ ! -d "$prefix" ] || room "$prefix" 100
	say "download $base/$name, and call: berth install --now --prefix $prefix"
	download "$name"
	gzip -dc "$work/$name" >"$work/tar" 2>/dev/null || fail "cannot unpack $name in $work"
	member=$(tar -tf "$work/tar" | grep -Ex '(\./)?([^/]+/)?berth' | head -n 1)
	[ -n "$member" ] || fail "there is no berth in $name"
	tar -xOf "$work/tar" "$member" >"$work/berth" || fail "cannot unpack $name in $work"
	chmod 755 "$work/berth"
	"$work/berth" --version >/dev/null 2>&1 || fail "$work/berth does not run: if that file system is mounted with noexec, set TMPDIR to a directory on another one"
	"$work/berth" install --now --prefix "$prefix" </dev/null || fail "berth install refuses it, as it says above"
}

main() {
	base=${BERTH_BASE:-@BASE@}
	base=${base%/}
	key=${BERTH_KEY:-@KEY@}
	case $base in
	*[@?#]*) fail "$base is no address such as https://example.org/berth" ;;
	https://*) scheme=https ;;
	http://127.0.0.1[:/]* | http://\[::1\][:/]*) scheme=http,https ;; # nobody is on the way
	*) fail "$base is not HTTPS" ;;
	esac
	umask 022
	lookAround
	exec 9>/run/berth-upgrade.lock
	flock -n 9 || fail "another installation or upgrade of berth is under way"
	work=$(mktemp -d "${TMPDIR:-/var/tmp}/berth-install.XXXXXX") || fail "cannot write to ${TMPDIR:-/var/tmp}"
	trap 'rm -rf "$work"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM

	fetch manifest 1
	fetch manifest.minisig 1
	verifier
	signed || fail "the manifest at $base is not signed by the key $key"
	version=$(sed -n '1s/^version //p' "$work/manifest")
	number "$version" || fail "the manifest at $base names no version"
	if [ -n "$current" ]; then
		if [ "$current" = "$version" ]; then
			say "berth $version is installed, and there is none newer: nothing to do"
			return
		fi
		[ "$(printf '%s\n' "$current" "$version" | sort -V | tail -n 1)" = "$version" ] || fail "berth $current is installed, and $base has only $version, which is older"
		say "upgrade berth $current to $version; programs run on"
	else
		say "install berth $version"
	fi
	if [ -n "$debian" ]; then
		name=berth_${version}_$arch.deb
		installPackage
	else
		name=berth_${version}_linux_$arch.tar.gz
		installArchive
	fi
	if [ -n "$current" ]; then
		say "berth $version is installed in the place of $current; berth doctor shows how it is"
	else
		say "berth $version is installed. Next, to make your account and open the panel: sudo berth setup"
	fi
}

main "$@"
