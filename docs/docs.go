package docs

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed *.md
var files embed.FS

// Group is pages about one topic.
type Group struct {
	Title string
	Names []string // of its pages
}

// Groups are all pages that who uses or runs a host may want, in the order in which they are read. What is left
// out is for berth's developers.
var Groups = []Group{
	{"Getting started", []string{"setup", "applications", "deploy", "panel", "sites"}},
	{"Run a host", []string{"operations", "notifications", "monitoring", "backups", "move", "import", "kubernetes", "packages", "systemd"}},
	{"Background", []string{"security", "limits", "memory", "performance", "compatibility", "billing"}},
	{"Reference", []string{"settings", "commands", "api"}},
}

// Page is one page.
type Page struct {
	Name     string // such as operations
	Title    string
	Sections []Section
	root     ast.Node
	source   []byte
}

// Section is a part of a page that has a heading: the first one has that of the page.
type Section struct {
	ID    string // of its heading in the page; "" for the first one
	Title string
	Level int // 1 is the whole page
	words string
}

// Find returns a page: false for a name that no group has.
func Find(name string) (Page, bool) {
	if !isPage(name) {
		return Page{}, false
	}
	source, err := files.ReadFile(name + ext)
	if err != nil {
		panic(err) // embedded, so this cannot be
	}
	anchors := parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{})))
	p := Page{Name: name, source: source, root: markdown.Parser().Parse(text.NewReader(source), anchors)}
	dropComments(p.root)
	dropPictures(p.root)
	p.Sections = sectionsOf(p.root, source)
	p.Title = p.Sections[0].Title
	return p, true
}

// HTML is the page without its title, and is called once. Links to other pages lead below at, such as /docs/; what
// leads to no page, such as to a file of the source, is no link.
func (p Page) HTML(at string) template.HTML {
	p.link(at)
	if first := p.root.FirstChild(); first != nil && first.Kind() == ast.KindHeading {
		p.root.RemoveChild(p.root, first)
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, p.source, p.root); err != nil {
		panic(err) // it writes to memory
	}
	// What is wider than a telephone is scrolled, also by keys. A text has no such word: it is escaped.
	return template.HTML(strings.NewReplacer( //nolint:gosec // Markdown of ours, rendered without HTML in it
		"<table>", `<div class="scroll" tabindex="0"><table>`, "</table>", "</table></div>", "<pre><code", `<pre tabindex="0"><code`,
	).Replace(b.String()))
}

// markdown has no raw HTML, and no inline style.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

const ext = ".md"

// link makes the links lead to pages below at.
func (p Page) link(at string) {
	var lost []*ast.Link
	walk(p.root, func(n ast.Node) {
		l, ok := n.(*ast.Link)
		if !ok {
			return
		}
		to := string(l.Destination)
		file, anchor, _ := strings.Cut(to, "#")
		name := strings.TrimSuffix(file, ext)
		switch {
		case file == "" || strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://"):
		case name != file && isPage(name) && anchor != "":
			l.Destination = []byte(at + name + "#" + anchor)
		case name != file && isPage(name):
			l.Destination = []byte(at + name)
		default:
			lost = append(lost, l)
		}
	})
	for _, l := range lost {
		parent := l.Parent()
		for c := l.FirstChild(); c != nil; c = l.FirstChild() {
			parent.InsertBefore(parent, l, c)
		}
		parent.RemoveChild(parent, l)
	}
}

func isPage(name string) bool {
	return slices.ContainsFunc(Groups, func(g Group) bool { return slices.Contains(g.Names, name) })
}

// walk calls visit for each node below root.
func walk(root ast.Node, visit func(ast.Node)) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // which has no error of its own
		if entering {
			visit(n)
		}
		return ast.WalkContinue, nil
	})
}

// dropComments removes what tells programs where a table is that they make.
func dropComments(root ast.Node) {
	for n := root.FirstChild(); n != nil; {
		next := n.NextSibling()
		if n.Kind() == ast.KindHTMLBlock {
			root.RemoveChild(root, n)
		}
		n = next
	}
}

// dropPictures removes each block with a picture, which no daemon has, and a heading that has nothing else.
func dropPictures(root ast.Node) {
	for n := root.FirstChild(); n != nil; {
		next, pictures := n.NextSibling(), false
		walk(n, func(n ast.Node) { pictures = pictures || n.Kind() == ast.KindImage })
		if pictures {
			heading := n.PreviousSibling()
			root.RemoveChild(root, n)
			if heading != nil && heading.Kind() == ast.KindHeading && (next == nil || next.Kind() == ast.KindHeading) {
				root.RemoveChild(root, heading)
			}
		}
		n = next
	}
}

// anchors names headings as the places do where the files are read otherwise: in small letters, with hyphens, and
// without what is neither a letter nor a number.
type anchors struct{ taken []string }

// Generate implements parser.IDs.
func (a *anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case unicode.IsLetter(c), unicode.IsNumber(c), c == '-', c == '_':
			return unicode.ToLower(c)
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	free := id
	for n := 1; slices.Contains(a.taken, free); n++ {
		free = fmt.Sprintf("%s-%d", id, n)
	}
	a.taken = append(a.taken, free)
	return []byte(free)
}

// Put implements parser.IDs.
func (a *anchors) Put(id []byte) { a.taken = append(a.taken, string(id)) }

// sectionsOf are the parts of a page, each with the words in it.
func sectionsOf(root ast.Node, source []byte) []Section {
	var all []Section
	var words strings.Builder
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, heading := n.(*ast.Heading)
		if !heading {
			read(&words, n, source)
			continue
		}
		if len(all) > 0 {
			all[len(all)-1].words = words.String()
		}
		words.Reset()
		var title strings.Builder
		read(&title, h, source)
		s := Section{Title: strings.TrimSpace(title.String()), Level: h.Level}
		if id, ok := h.AttributeString("id"); ok && len(all) > 0 {
			s.ID = string(id.([]byte))
		}
		all = append(all, s)
	}
	all[len(all)-1].words = words.String()
	return all
}

// read adds the words of a node.
func read(to *strings.Builder, n ast.Node, source []byte) {
	walk(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			to.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() || n.NextSibling() == nil {
				to.WriteByte(' ')
			}
		case *ast.AutoLink:
			to.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
				to.Write(line.Value(source))
			}
		}
	})
}
