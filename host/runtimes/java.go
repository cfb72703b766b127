package runtimes

// java runs jars that were built before: what builds them needs more memory
// than most programs.
var java = language{
	name:     "java",
	title:    "Java",
	exts:     []string{".jar"},
	mains:    []string{"app.jar", "main.jar", "bot.jar", "server.jar"},
	programs: []program{{binary: "java", title: "Java", apt: "default-jre-headless"}},
	argv: func(p *project) ([]string, error) {
		path, err := p.need(p.lang.programs[0])
		// The JVM sees its group's limit, in both versions of control groups. What
		// is not heap (code, stacks, classes) needs the rest. The second option is
		// the first one's for groups below about 250 MB.
		return []string{path, "-XX:MaxRAMPercentage=70", "-XX:MinRAMPercentage=70", "-jar", p.argument()}, err
	},
}
