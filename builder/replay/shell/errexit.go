package shell

import "mvdan.cc/sh/v3/syntax"

// keepErrexitFromLists rewrites "A && B" at the end of a compound command to "if A; then B; fi".
//
// With set -e, a compound command does not end the shell when its status is that of a list whose failure was ignored
// (POSIX, Shell Command Language, set -e, third exception). The interpreter of mvdan.cc/sh (v3.14.1) looks at the
// status alone and ends the script. What is rewritten has the status 0 when A fails, so the last command of a list,
// whose status may be that of a function, stays as it is.
func keepErrexitFromLists(file *syntax.File) {
	fixAll(file.Stmts)
	syntax.Walk(file, func(n syntax.Node) bool {
		for _, list := range lists(n) {
			if len(list) > 0 {
				fixAll(list[:len(list)-1])
			}
		}
		return true
	})
}

func fixAll(list []*syntax.Stmt) {
	for _, s := range list {
		for _, body := range bodies(s.Cmd) {
			if len(body) > 0 {
				fixTail(body[len(body)-1])
			}
		}
	}
}

// fixTail rewrites a statement whose status is that of the compound command around it.
func fixTail(s *syntax.Stmt) {
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.AndStmt && !s.Negated {
		s.Cmd = &syntax.IfClause{Position: b.OpPos, ThenPos: b.OpPos, FiPos: b.OpPos, Cond: []*syntax.Stmt{b.X}, Then: []*syntax.Stmt{b.Y}}
		fixTail(b.Y)
		return
	}
	fixAll([]*syntax.Stmt{s})
}

// bodies are the lists of a compound command whose last status is its own. A subshell has none: it ends by itself.
func bodies(c syntax.Command) [][]*syntax.Stmt {
	switch c := c.(type) {
	case *syntax.Block:
		return [][]*syntax.Stmt{c.Stmts}
	case *syntax.IfClause:
		var out [][]*syntax.Stmt
		for i := c; i != nil; i = i.Else {
			out = append(out, i.Then)
		}
		return out
	case *syntax.WhileClause:
		return [][]*syntax.Stmt{c.Do}
	case *syntax.ForClause:
		return [][]*syntax.Stmt{c.Do}
	case *syntax.CaseClause:
		var out [][]*syntax.Stmt
		for _, i := range c.Items {
			out = append(out, i.Stmts)
		}
		return out
	}
	return nil
}

// lists are all lists of statements of a node.
func lists(n syntax.Node) [][]*syntax.Stmt {
	switch n := n.(type) {
	case *syntax.Subshell:
		return [][]*syntax.Stmt{n.Stmts}
	case *syntax.CmdSubst:
		return [][]*syntax.Stmt{n.Stmts}
	case syntax.Command:
		return bodies(n)
	}
	return nil
}
