package shell

import (
	"bytes"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// renamed are the numbers of processes: the process that builds has others each time.
var renamed = map[string]string{"$": "SPORE_PID", "PPID": "SPORE_PPID"}

// unsteady are variables that bash computes from a clock, a process or chance.
var unsteady = map[string]bool{
	"RANDOM": true, "SRANDOM": true, "EPOCHSECONDS": true, "EPOCHREALTIME": true, "BASHPID": true, "SECONDS": true, "HOSTNAME": true, "!": true,
}

// prepare parses a script, refuses what would start something beside it or differ from run to run, and replaces $$ and
// $PPID.
func prepare(name, text string) (*syntax.File, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("%s: over %d bytes: %w", name, maxScript, ErrBound)
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil || err != nil {
			return false
		}
		if what, why := refused(n); what != "" {
			err = fmt.Errorf("%s:%d: %w", name, n.Pos().Line(), &Unreplayed{what, why})
			return false
		}
		if s, ok := n.(*syntax.Stmt); ok && s.Background {
			s.Background, s.Cmd = false, refusal(s)
		}
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && renamed[p.Param.Value] != "" {
			p.Param.Value, p.Short = renamed[p.Param.Value], false
		}
		return true
	})
	if err == nil {
		keepErrexitFromLists(file)
	}
	return file, err
}

// refused names a construct that no replay has.
func refused(n syntax.Node) (what, why string) {
	const (
		beside = "nothing runs beside a script at build"
		steady = "a build gives the same each time"
	)
	switch n := n.(type) {
	case *syntax.Stmt:
		if n.Coprocess {
			return "a coprocess", beside
		}
	case *syntax.CoprocClause:
		return "a coprocess", beside
	case *syntax.ProcSubst:
		return "a process substitution", beside
	case *syntax.ParamExp:
		if n.Excl {
			return "${!…}", "the variable that it names is not known before"
		}
		if n.Param != nil && unsteady[n.Param.Value] {
			return "$" + n.Param.Value, steady
		}
	case *syntax.ArithmExp:
		return refusedArithmetic(n)
	case *syntax.ArithmCmd:
		return refusedArithmetic(n)
	}
	return "", ""
}

// inBackground is the command that stands for one in the background: it is refused when the script comes to it.
const inBackground = "spore-background"

// refusal replaces a command in the background; scripts have some that they never come to at a first installation.
func refusal(s *syntax.Stmt) syntax.Command {
	name := &syntax.Lit{ValuePos: s.Position, ValueEnd: s.Position, Value: inBackground}
	return &syntax.CallExpr{Args: []*syntax.Word{{Parts: []syntax.WordPart{name}}}}
}

// refusedArithmetic looks for the names of variables without a $.
func refusedArithmetic(n syntax.Node) (what, why string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if l, ok := n.(*syntax.Lit); ok && unsteady[l.Value] {
			what, why = l.Value, "a build gives the same each time"
		}
		return what == ""
	})
	return what, why
}

// prepareText is prepare for text that a builtin of the interpreter will parse.
func prepareText(name, text string) (string, error) {
	file, err := prepare(name, text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := syntax.NewPrinter().Print(&out, file); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return out.String(), nil
}
