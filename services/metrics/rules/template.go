package rules

import (
	"errors"
	"fmt"
	"strings"
	tree "text/template/parse"

	"spore/cluster/check"
)

// header declares the variables that templates can use (vmalert, notifier.Alert).
const header = "{{ $value := .Value }}{{ $labels := .Labels }}{{ $expr := .Expr }}{{ $activeAt := .ActiveAt }}{{ $for := .For }}"

// functions are those of vmalert and of text/template, without query, which asks the store, and without those that
// make pages.
var functions = func() map[string]any {
	out := map[string]any{}
	for _, name := range []string{
		"and", "eq", "ge", "gt", "index", "le", "len", "lt", "ne", "not", "or", "print", "printf", "println", "slice",
		"formatTime", "humanize", "humanize1024", "humanizeDuration", "humanizePercentage", "humanizeTimestamp", "match",
		"now", "parseDuration", "parseDurationTime", "reReplaceAll", "stripDomain", "stripPort", "title", "toLower", "toTime",
		"toUpper",
	} {
		out[name] = true
	}
	return out
}()

// checkTemplate refuses what vmalert cannot write out, and what could go on for ever.
func checkTemplate(text string) error {
	if !strings.Contains(text, "{{") {
		return nil
	}
	trees, err := tree.Parse("", header+text, "{{", "}}", functions)
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "template: :1: "), "template: :"))
	}
	if len(trees) > 1 {
		return errors.New("define is not taken; write the text where it is used")
	}
	for _, t := range trees {
		if t.Root != nil {
			if err := checkNodes(t.Root); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNodes(list *tree.ListNode) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		var err error
		switch n := n.(type) {
		case *tree.TextNode, *tree.ActionNode, *tree.CommentNode:
		case *tree.IfNode:
			err = errors.Join(checkNodes(n.List), checkNodes(n.ElseList))
		case *tree.WithNode:
			err = errors.Join(checkNodes(n.List), checkNodes(n.ElseList))
		default:
			err = fmt.Errorf("%q is not taken; write values, if and with", check.Clip(n.String()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
