package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"berth/test/checkout"
)

// asvsLevels are the levels of the requirements of OWASP ASVS 5.0.0, by section and in order.
var asvsLevels = map[string]string{
	"1.1": "22", "1.2": "1111122223", "1.3": "112222222223", "1.4": "222", "1.5": "123",
	"2.1": "122", "2.2": "112", "2.3": "12223", "2.4": "23",
	"3.1": "3", "3.2": "113", "3.3": "12223", "3.4": "11222233", "3.5": "11122333", "3.6": "3", "3.7": "22333",
	"4.1": "12233", "4.2": "23333", "4.3": "22", "4.4": "1222",
	"5.1": "2", "5.2": "112333", "5.3": "113", "5.4": "222",
	"6.1": "122", "6.2": "111111112222", "6.3": "11223333", "6.4": "112233", "6.5": "22222333", "6.6": "2223", "6.7": "33", "6.8": "2222",
	"7.1": "222", "7.2": "1111", "7.3": "22", "7.4": "11222", "7.5": "223", "7.6": "22",
	"8.1": "1233", "8.2": "1123", "8.3": "133", "8.4": "23",
	"9.1": "111", "9.2": "1222",
	"10.1": "22", "10.2": "223", "10.3": "22223", "10.4": "1111122222233333", "10.5": "22222", "10.6": "22", "10.7": "222",
	"11.1": "2233", "11.2": "22233", "11.3": "11233", "11.4": "1222", "11.5": "23", "11.6": "23", "11.7": "33",
	"12.1": "12233", "12.2": "11", "12.3": "22223",
	"13.1": "2333", "13.2": "222223", "13.3": "2233", "13.4": "1222233",
	"14.1": "22", "14.2": "12223333", "14.3": "122",
	"15.1": "12233", "15.2": "12233", "15.3": "1222222", "15.4": "3333",
	"16.1": "2", "16.2": "22222", "16.3": "2222", "16.4": "222", "16.5": "2223",
	"17.1": "23", "17.2": "22223333", "17.3": "22",
}

const asvsNumber = "v5.0.0-"

// What the fourth cell of a row of docs/asvs.md begins with, unless berth holds the requirement.
const (
	notApplicable = "not applicable: "
	exception     = "exception: "
	levelOneAlone = "level 1 alone: "
)

// asvsCount is what came of the requirements of one level.
type asvsCount struct {
	all, apply int
	exceptions []string
}

func (c *asvsCount) held() int { return c.apply - len(c.exceptions) }

// asvsPage checks the rows of docs/asvs.md and counts them: each requirement of the levels 1 and
// 2 is there once, each test that a row names is in the code, each page in docs. Level 1 has no
// exception, and level 2 at most 5 %.
func asvsPage(root, text string) (string, error) {
	tests, err := testNames(root)
	if err != nil {
		return "", err
	}
	return asvsPageOf(root, text, tests)
}

// asvsPageOf is asvsPage with what testNames returns.
func asvsPageOf(root, text string, tests map[string][]string) (string, error) {
	seen := map[string]bool{}
	counts := map[byte]*asvsCount{'1': {}, '2': {}}
	var wrong []error
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "| "+asvsNumber) {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 5 {
			wrong = append(wrong, fmt.Errorf("%.40s has %d cells, want 5", line, len(cells)))
			continue
		}
		number := strings.TrimPrefix(cells[0], asvsNumber)
		level, known := asvsLevel(number)
		if !known || cells[1] != string(level) || counts[level] == nil || seen[number] {
			wrong = append(wrong, fmt.Errorf("%s of level %s is no requirement, or there twice", number, cells[1]))
			continue
		}
		seen[number] = true
		count(counts, level, number, cells[3])
		if err := checkProof(root, cells[3], cells[4], tests); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", number, err))
		}
	}
	for section, levels := range asvsLevels {
		for i := range levels {
			if number := fmt.Sprintf("%s.%d", section, i+1); levels[i] != '3' && !seen[number] {
				wrong = append(wrong, fmt.Errorf("%s is missing", number))
			}
		}
	}
	one, two := counts['1'], counts['2']
	if len(one.exceptions) > 0 || 100*two.held() < 95*two.apply {
		wrong = append(wrong, fmt.Errorf("the exceptions are too many: %v of level 1, %v of level 2", one.exceptions, two.exceptions))
	}
	if err := errors.Join(wrong...); err != nil {
		return "", err
	}
	return between(text, asvsSummary(one, two))
}

// asvsLevel is the level of a requirement.
func asvsLevel(number string) (level byte, known bool) {
	for section, levels := range asvsLevels {
		for i := range levels {
			if number == fmt.Sprintf("%s.%d", section, i+1) {
				return levels[i], true
			}
		}
	}
	return 0, false
}

func count(counts map[byte]*asvsCount, level byte, number, state string) {
	c := counts[level]
	c.all++
	if strings.HasPrefix(state, notApplicable) {
		return
	}
	c.apply++
	if strings.HasPrefix(state, exception) {
		c.exceptions = append(c.exceptions, number)
	}
	if strings.HasPrefix(state, levelOneAlone) {
		counts['2'].all++
		counts['2'].apply++
		counts['2'].exceptions = append(counts['2'].exceptions, number)
	}
}

var (
	namedTest  = regexp.MustCompile("`(?:([\\w/]+)\\.)?((?:Test|Fuzz)\\w+)`") // perhaps with its directory
	namedPlace = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]+))?\)`)
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	notInLink  = regexp.MustCompile("[^a-z0-9 _-]")
)

// checkProof fails unless what a row names is there: at least one test or place for what
// berth holds.
func checkProof(root, state, proof string, tests map[string][]string) error {
	named := namedTest.FindAllStringSubmatch(proof, -1)
	places := namedPlace.FindAllStringSubmatch(state+proof, -1)
	for _, test := range named {
		dirs := tests[test[2]]
		switch {
		case len(dirs) == 0 || test[1] != "" && !slices.Contains(dirs, test[1]):
			return fmt.Errorf("there is no test %s", strings.Trim(test[0], "`"))
		case test[1] == "" && len(dirs) > 1:
			return fmt.Errorf("there are tests %s in %s: say which, such as %s.%s", test[2], strings.Join(dirs, " and "), dirs[0], test[2])
		}
	}
	for _, place := range places {
		if err := checkPlace(filepath.Join(root, "docs"), place[1], place[2]); err != nil {
			return err
		}
	}
	held := !strings.HasPrefix(state, notApplicable) && !strings.HasPrefix(state, exception)
	if held && len(named)+len(namedPlace.FindAllString(proof, -1)) == 0 {
		return errors.New("nothing proves it")
	}
	return nil
}

// checkPlace fails unless a link of a page in docs leads to a file, and to a heading in it.
func checkPlace(docs, file, heading string) error {
	if file == "" {
		file = "asvs.md"
	}
	text, err := os.ReadFile(filepath.Join(docs, file))
	if err != nil || heading == "" {
		return err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		title := strings.TrimSpace(strings.TrimLeft(line, "#"))
		if strings.HasPrefix(line, "#") && strings.ReplaceAll(notInLink.ReplaceAllString(strings.ToLower(title), ""), " ", "-") == heading {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading #%s", file, heading)
}

// testNames are the tests of every package and module, with the directories that have one
// of the name.
func testNames(root string) (map[string][]string, error) {
	list, err := checkout.Files(root, "_test.go")
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for _, file := range list {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		dir := path.Dir(file)
		for _, found := range testFunc.FindAllSubmatch(text, -1) {
			if name := string(found[1]); !slices.Contains(names[name], dir) { // it may be there for two systems
				names[name] = append(names[name], dir)
			}
		}
	}
	return names, nil
}

func asvsSummary(one, two *asvsCount) string {
	var b strings.Builder
	b.WriteString("| level | requirements | apply to berth | held | exceptions | held of what applies |\n|---|---|---|---|---|---|\n")
	for i, c := range []*asvsCount{one, two} {
		exceptions := "none"
		if len(c.exceptions) > 0 {
			exceptions = fmt.Sprintf("%d: %s", len(c.exceptions), strings.Join(c.exceptions, ", "))
		}
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %s | %.1f %% |\n", i+1, c.all, c.apply, c.held(), exceptions, 100*float64(c.held())/float64(max(c.apply, 1)))
	}
	return b.String()
}
