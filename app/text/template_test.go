package text

import templates "text/template/parse"

// template takes the sentences of a template: {{t "..."}} and {{count 2 "..." "..."}}.
func (s *source) template(file, content string) {
	tree := templates.New(file)
	tree.Mode = templates.SkipFuncCheck
	trees := map[string]*templates.Tree{}
	if _, err := tree.Parse(content, "", "", trees); err != nil {
		s.refuse("%s: %v", file, err)
		return
	}
	trees[file] = tree
	for _, one := range trees {
		if one.Root != nil {
			s.nodes(one, one.Root)
		}
	}
}

// nodes walks a template.
func (s *source) nodes(tree *templates.Tree, n templates.Node) {
	var inner []templates.Node
	branch := func(b *templates.BranchNode) {
		inner = append(inner, b.Pipe, b.List)
		if b.ElseList != nil {
			inner = append(inner, b.ElseList)
		}
	}
	switch n := n.(type) {
	case *templates.ListNode:
		inner = n.Nodes
	case *templates.ActionNode:
		inner = append(inner, n.Pipe)
	case *templates.TemplateNode:
		if n.Pipe != nil {
			inner = append(inner, n.Pipe)
		}
	case *templates.IfNode:
		branch(&n.BranchNode)
	case *templates.RangeNode:
		branch(&n.BranchNode)
	case *templates.WithNode:
		branch(&n.BranchNode)
	case *templates.PipeNode:
		for _, c := range n.Cmds {
			inner = append(inner, c)
		}
	case *templates.CommandNode:
		inner = n.Args
		s.command(tree, n)
	case *templates.ChainNode:
		inner = append(inner, n.Node)
	}
	for _, one := range inner {
		s.nodes(tree, one)
	}
}

// command takes the sentences of one command of a template.
func (s *source) command(tree *templates.Tree, c *templates.CommandNode) {
	fun, is := c.Args[0].(*templates.IdentifierNode)
	if !is {
		return
	}
	for _, i := range sayers["template."+fun.Ident] {
		where, _ := tree.ErrorContext(c)
		var literal *templates.StringNode
		if i+1 < len(c.Args) {
			literal, _ = c.Args[i+1].(*templates.StringNode)
		}
		if literal == nil {
			s.refuse("%s: what %s says must be a literal", where, fun.Ident)
			continue
		}
		s.said[literal.Text] = where
	}
}
