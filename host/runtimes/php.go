package runtimes

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

var (
	phpProgram = program{binary: "php", title: "PHP", apt: "php-cli", image: "php"}
	composer   = program{binary: "composer", title: "Composer", apt: "composer", image: "php"}
)

// php runs bots as they are and sites on PHP's own server; Composer installs
// what composer.json asks for.
var php = language{
	name:     "php",
	title:    "PHP",
	exts:     []string{".php"},
	mains:    []string{"index.php", "public/index.php", "main.php", "bot.php", "app.php", "src/main.php", "src/bot.php"},
	programs: []program{phpProgram, composer},
	shebangs: []string{"php"},
	evidence: []string{"composer.json"},
	demand: func(p *project) demand {
		var c composerJSON
		if err := p.readJSON("composer.json", &c); err != nil {
			return demand{}
		}
		// Composer's "~8.1" includes 8.2, and "|" is "||".
		wants := strings.NewReplacer("~", "~>", "||", "||", "|", "||").Replace(texts(c.Require)["php"])
		return demand{ranges: wants, file: "composer.json"}
	},
	packages: composerPackages,
	bin:      "vendor/bin",
	argv:     phpArgv,
}

// phpArgv starts a bot, or PHP's server for the folder of a site.
func phpArgv(p *project) ([]string, error) {
	command, err := p.need(phpProgram)
	var options []string
	if p.cfg.RAM > 0 {
		options = []string{PHPLimit(p.cfg.RAM)}
	}
	if err != nil || p.cfg.Type != app.Site {
		return slices.Concat([]string{command}, options, []string{p.argument()}), err
	}
	root := path.Dir(p.main)
	if root == "." && p.files.Exists("public/index.php") {
		root = "public"
	}
	if root == "." {
		p.note("The site is the whole archive, so every file of it can be read by its visitors; what they may see goes into public/, with MAIN=public/index.php.")
	}
	address := "127.0.0.1"
	if p.tools.Images() { // a container, which visitors reach at its own address
		address = "0.0.0.0"
	}
	// PORT is known to the run alone.
	return append([]string{sh, "-c", `root=$1; shift; exec "$0" "$@" -S "` + address + `:$PORT" -t "$root"`, command, "./" + root}, options...), nil
}

// composerJSON is what berth reads of composer.json.
type composerJSON struct {
	Require json.RawMessage `json:"require"`
	Dev     json.RawMessage `json:"require-dev"`
}

// ownFiles matches a composer.json whose packages, or their loader, are made
// of files of the project.
var ownFiles = regexp.MustCompile(`"(scripts|repositories|classmap|optimize-autoloader|classmap-authoritative|allow-plugins)"`)

// composerPackages installs the packages, if composer.json asks for more than
// PHP and its extensions.
func composerPackages(p *project) (packages, error) {
	var c composerJSON
	if err := p.readJSON("composer.json", &c); err != nil {
		return packages{}, err
	}
	if !asksForPHP(c.Require) && (p.cfg.Build == "" || !asksForPHP(c.Dev)) {
		return packages{}, nil
	}
	command, err := p.need(composer, phpProgram)
	if err != nil {
		return packages{}, err
	}
	text, err := p.read("composer.json")
	argv := []string{command, "install", "--no-interaction", "--no-progress", "--prefer-dist"}
	lock := p.lockOf("composer.json", "composer.lock")
	if lock == "" {
		argv[1] = "update" // which asks no lock file of an older composer.json
	}
	recipe := "composer"
	if p.cfg.Build == "" {
		argv, recipe = append(argv, "--no-dev"), "composer --no-dev"
	}
	return packages{
		steps: []app.Step{{
			Argv:   argv,
			OnFail: app.Textf("Composer could not install the packages of composer.json; its output tells why. An extension of PHP that is missing is the owner's to install."),
		}},
		recipe: recipe, from: []string{"composer.json"}, lock: lock, locks: []string{"composer.lock"},
		mark: "vendor/composer/installed.json", unclear: ownFiles.MatchString(text) || undoes.MatchString(p.cfg.Build),
	}, err
}

// asksForPHP reports whether a section names a package that Composer installs.
func asksForPHP(section json.RawMessage) bool {
	for name := range texts(section) {
		if strings.Contains(name, "/") { // all others are the platform's
			return true
		}
	}
	return false
}
