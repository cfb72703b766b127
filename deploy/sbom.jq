# The bill of materials of a binary, in CycloneDX's form, of what "go version -m -json" says
# of it and of what is linked in from C. Without times and random numbers: the same
# binary has the same bill.
[.Deps[]? | (.Replace // .) | "pkg:golang/\(.Path)@\(.Version)" as $purl |
	{type: "library", "bom-ref": $purl, name: .Path, version: .Version, purl: $purl}] as $modules |
[
	{type: "library", "bom-ref": "pkg:golang/std@\(.GoVersion[2:])", name: "std", version: .GoVersion[2:], purl: "pkg:golang/std@\(.GoVersion[2:])",
		licenses: [{license: {id: "BSD-3-Clause"}}]},
	{type: "library", "bom-ref": "pkg:generic/sqlite@\($sqlite)", name: "sqlite", version: $sqlite, purl: "pkg:generic/sqlite@\($sqlite)",
		description: "compiled in by go-sqlite3", licenses: [{license: {id: "blessing"}}]},
	{type: "library", "bom-ref": "pkg:deb/debian/\($libc)@\($glibc)", name: "glibc", version: $glibc, purl: "pkg:deb/debian/\($libc)@\($glibc)",
		description: "linked statically", licenses: [{license: {id: "LGPL-2.1-or-later"}}]}
] as $others |
{
	bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
	metadata: {
		timestamp: $time,
		component: {type: "application", "bom-ref": "berth", name: "berth", version: $version, licenses: [{license: {id: "MIT"}}],
			hashes: [{alg: "SHA-256", content: $sum}],
			properties: [.Settings[] | {name: "build:\(.Key)", value: .Value}]}
	},
	components: ($modules + $others),
	dependencies: [{ref: "berth", dependsOn: ($modules + $others | map(."bom-ref"))}]
}
