package fileutils

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spore/builder/tree"
)

// A test is one primary of find. An error ends the replay.
type test func(f *finder, e found) (bool, error)

// found is a file that find is at.
type found struct {
	// name is the path as it is printed, path the absolute one, and operand the part of name that was given.
	name, path, operand string
	depth               int
	// n is the file as tests see it: behind a symbolic link when links are followed.
	n *tree.Inode
}

// findUsage is an error of the expression that find tells of with status 1.
type findUsage string

func (e findUsage) Error() string { return string(e) }

// findUnknown is a primary that is not replayed.
type findUnknown string

func (e findUnknown) Error() string { return string(e) }

// findPlan is what an expression asks for.
type findPlan struct {
	test               test
	minDepth, maxDepth int
	depthFirst         bool
	follow             bool
	// batches are those of -exec … {} +, whose last run is at the end.
	batches []*batch
}

// maxNesting bounds the parentheses in each other of an expression.
const maxNesting = 100

// findParser reads an expression. What a primary needs of the tree, such as the ids of names, it asks from the job.
type findParser struct {
	*job
	args    []string
	plan    findPlan
	acts    bool
	nesting int
	regex   string
}

// parseFind reads an expression; without an action it prints.
func (j *job) parseFind(args []string) (*findPlan, error) {
	p := &findParser{job: j, args: args, plan: findPlan{maxDepth: -1}, regex: emacs}
	p.plan.test = func(*finder, found) (bool, error) { return true, nil }
	if len(args) > 0 {
		t, err := p.list()
		if err != nil {
			return nil, err
		}
		if len(p.args) > 0 {
			if p.args[0] == ")" {
				return nil, findUsage("you have too many ')'")
			}
			return nil, findUsage(fmt.Sprintf("paths must precede expression: `%s'", p.args[0]))
		}
		p.plan.test = t
	}
	if !p.acts {
		p.plan.test = and(p.plan.test, printing("\n"))
	}
	return &p.plan, nil
}

// list is a list of alternatives with commas between them, of which the last is the result.
func (p *findParser) list() (test, error) {
	left, err := p.or()
	for err == nil && len(p.args) > 0 && p.args[0] == "," {
		if len(p.args) == 1 {
			return nil, findUsage("expected an expression after ','")
		}
		p.args = p.args[1:]
		var right test
		first := left
		if right, err = p.or(); err != nil {
			break
		}
		left = func(f *finder, e found) (bool, error) {
			if _, err := first(f, e); err != nil {
				return false, err
			}
			return right(f, e)
		}
	}
	return left, err
}

func (p *findParser) or() (test, error) {
	left, err := p.and()
	for err == nil && len(p.args) > 0 && (p.args[0] == "-o" || p.args[0] == "-or") {
		if len(p.args) == 1 {
			return nil, findUsage(fmt.Sprintf("expected an expression after '%s'", p.args[0]))
		}
		p.args = p.args[1:]
		var right test
		first := left
		if right, err = p.and(); err != nil {
			break
		}
		left = func(f *finder, e found) (bool, error) {
			if ok, err := first(f, e); ok || err != nil {
				return ok, err
			}
			return right(f, e)
		}
	}
	return left, err
}

func (p *findParser) and() (test, error) {
	left, err := p.not()
	for err == nil {
		explicit := p.next("-a", "-and")
		if !explicit && (len(p.args) == 0 || slices.Contains([]string{")", "-o", "-or", ","}, p.args[0])) {
			break
		}
		var right test
		if right, err = p.not(); err == nil {
			left = and(left, right)
		}
	}
	return left, err
}

func and(left, right test) test {
	return func(f *finder, e found) (bool, error) {
		if ok, err := left(f, e); !ok || err != nil {
			return false, err
		}
		return right(f, e)
	}
}

func (p *findParser) not() (test, error) {
	negated := false
	for len(p.args) > 0 && (p.args[0] == "!" || p.args[0] == "-not") {
		if len(p.args) == 1 {
			return nil, findUsage(fmt.Sprintf("expected an expression after '%s'", p.args[0]))
		}
		negated, p.args = !negated, p.args[1:]
	}
	t, err := p.primary()
	if err != nil || !negated {
		return t, err
	}
	return func(f *finder, e found) (bool, error) {
		ok, err := t(f, e)
		return !ok && err == nil, err
	}, nil
}

func (p *findParser) next(words ...string) bool {
	if len(p.args) == 0 || !slices.Contains(words, p.args[0]) {
		return false
	}
	p.args = p.args[1:]
	return true
}

func (p *findParser) primary() (test, error) {
	if len(p.args) == 0 {
		return nil, findUsage("expected an expression")
	}
	word := p.args[0]
	p.args = p.args[1:]
	switch {
	case word == "(":
		return p.parenthesis()
	case word == ")" || word == "," || word == "-o" || word == "-or" || word == "-a" || word == "-and":
		return nil, findUsage(fmt.Sprintf("invalid expression; you have used a binary operator '%s' with nothing "+
			"before it.", word))
	case len(word) < 2 || word[0] != '-':
		return nil, findUsage(fmt.Sprintf("paths must precede expression: `%s'", word))
	}
	if t, ok, err := p.withoutValue(word); ok || err != nil {
		return t, err
	}
	if word == "-exec" {
		p.acts = true
		return p.exec()
	}
	if !slices.Contains(findValued, word) {
		return nil, findUnknown(word)
	}
	if len(p.args) == 0 {
		return nil, findUsage(fmt.Sprintf("missing argument to `%s'", word))
	}
	value := p.args[0]
	p.args = p.args[1:]
	return p.withValue(word, value)
}

func (p *findParser) parenthesis() (test, error) {
	if p.nesting++; p.nesting > maxNesting {
		return nil, findUnknown(fmt.Sprintf("an expression with more than %d parentheses in each other", maxNesting))
	}
	if len(p.args) == 0 {
		return nil, findUsage("invalid expression; expected to find a ')' but didn't see one. " +
			"Perhaps you need an extra predicate after '('")
	}
	if p.args[0] == ")" {
		return nil, findUsage("invalid expression; empty parentheses are not allowed.")
	}
	t, err := p.list()
	if err != nil {
		return nil, err
	}
	if !p.next(")") {
		return nil, findUsage("invalid expression; I was expecting to find a ')' somewhere but did not see one.")
	}
	p.nesting--
	return t, nil
}

// withoutValue are the primaries that stand alone.
func (p *findParser) withoutValue(word string) (test, bool, error) {
	always := func(v bool) test { return func(*finder, found) (bool, error) { return v, nil } }
	is := func(fn func(n *tree.Inode) bool) test {
		return func(_ *finder, e found) (bool, error) { return fn(e.n), nil }
	}
	switch word {
	case "-true", "-mount", "-xdev", "-noleaf", "-warn", "-nowarn", "-readable":
		return always(true), true, nil
	case "-writable":
		return always(true), true, nil
	case "-false":
		return always(false), true, nil
	case "-depth", "-d":
		p.plan.depthFirst = true
		return always(true), true, nil
	case "-follow":
		p.plan.follow = true
		return always(true), true, nil
	case "-executable":
		return func(f *finder, e found) (bool, error) {
			n, err := f.Files.Stat(e.path)
			return err == nil && (n.Type == tree.Dir || n.Mode&0o111 != 0), nil
		}, true, nil
	case "-nouser":
		return is(func(n *tree.Inode) bool { return p.names.UserName(n.UID) == "" }), true, nil
	case "-nogroup":
		return is(func(n *tree.Inode) bool { return p.names.GroupName(n.GID) == "" }), true, nil
	case "-empty":
		return func(f *finder, e found) (bool, error) { return f.empty(e) }, true, nil
	case "-print", "-print0", "-prune", "-quit", "-delete":
		return p.action(word), true, nil
	}
	return nil, false, nil
}

func (p *findParser) action(word string) test {
	switch word {
	case "-prune":
		return func(f *finder, e found) (bool, error) {
			f.pruned = true
			return true, nil
		}
	case "-print":
		p.acts = true
		return printing("\n")
	case "-print0":
		p.acts = true
		return printing("\x00")
	case "-quit":
		p.acts = true
		return func(*finder, found) (bool, error) { return false, errQuit }
	}
	p.acts, p.plan.depthFirst = true, true
	return func(f *finder, e found) (bool, error) { return f.delete(e) }
}

func printing(end string) test {
	return func(f *finder, e found) (bool, error) {
		f.print(e.name + end)
		return true, nil
	}
}

// findValued are the primaries with one value.
var findValued = []string{"-name", "-iname", "-path", "-wholename", "-ipath", "-iwholename", "-lname", "-ilname",
	"-regex", "-iregex",
	"-regextype", "-type", "-xtype", "-maxdepth", "-mindepth", "-perm", "-user", "-group", "-uid", "-gid", "-newer",
	"-size", "-links",
	"-samefile", "-printf"}

func (p *findParser) withValue(word, value string) (test, error) {
	switch word {
	case "-name", "-iname", "-path", "-wholename", "-ipath", "-iwholename", "-lname", "-ilname":
		return p.pattern(word, value)
	case "-regex", "-iregex":
		re, err := posixRegexp(value, p.regex, word == "-iregex")
		if err != nil {
			return nil, findUnknown(err.Error())
		}
		return func(_ *finder, e found) (bool, error) { return re.MatchString(e.name), nil }, nil
	case "-regextype":
		kinds := map[string]string{"emacs": emacs, "findutils-default": emacs, "posix-extended": extended,
			"egrep":       extended,
			"posix-egrep": extended, "posix-basic": basic, "grep": basic, "sed": basic, "ed": basic}
		if p.regex = kinds[value]; p.regex == "" {
			return nil, findUnknown("-regextype " + value)
		}
		return func(*finder, found) (bool, error) { return true, nil }, nil
	case "-type", "-xtype":
		return p.types(word, value)
	case "-maxdepth", "-mindepth":
		return p.depths(word, value)
	case "-perm":
		return p.perm(value)
	case "-user", "-group":
		return p.account(word, value)
	case "-newer", "-samefile":
		n, err := p.look(value, p.plan.follow)
		if err != nil {
			return nil, findUsage(fmt.Sprintf("'%s': %s", value, reason(err)))
		}
		if word == "-samefile" {
			return func(_ *finder, e found) (bool, error) { return e.n == n, nil }, nil
		}
		when := n.MTime
		return func(_ *finder, e found) (bool, error) { return e.n.MTime > when, nil }, nil
	case "-printf":
		p.acts = true
		return p.printing(value)
	}
	return p.numbers(word, value)
}

func (p *findParser) pattern(word, value string) (test, error) {
	re, err := glob(value, strings.HasPrefix(word, "-i"))
	if err != nil {
		return nil, findUnknown(err.Error())
	}
	switch {
	case strings.HasSuffix(word, "lname"):
		return func(_ *finder, e found) (bool, error) {
			return e.n.Type == tree.Symlink && re.MatchString(e.n.Target), nil
		}, nil
	case strings.HasSuffix(word, "name") && !strings.Contains(word, "whole"):
		return func(_ *finder, e found) (bool, error) { return re.MatchString(base(e.name)), nil }, nil
	}
	return func(_ *finder, e found) (bool, error) { return re.MatchString(e.name), nil }, nil
}

func (p *findParser) types(word, value string) (test, error) {
	letters := map[string]tree.Type{"d": tree.Dir, "f": tree.Regular, "l": tree.Symlink, "c": tree.CharDevice,
		"b": tree.BlockDevice,
		"p": tree.Fifo}
	var types []tree.Type
	for _, letter := range strings.Split(value, ",") {
		t, ok := letters[letter]
		switch {
		case letter == "s": // the tree has no sockets
		case !ok:
			return nil, findUsage(fmt.Sprintf("Unknown argument to %s: %s", word, letter))
		default:
			types = append(types, t)
		}
	}
	if word == "-type" {
		return func(_ *finder, e found) (bool, error) { return slices.Contains(types, e.n.Type), nil }, nil
	}
	return func(f *finder, e found) (bool, error) {
		n, err := f.Files.Lstat(e.path)
		if err == nil && !f.links {
			if to, err := f.Files.Stat(e.path); err == nil {
				n = to
			}
		}
		return err == nil && slices.Contains(types, n.Type), nil
	}, nil
}

func (p *findParser) depths(word, value string) (test, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return nil, findUsage(fmt.Sprintf("Expected a positive decimal integer argument to %s, but got '%s'", word,
			value))
	}
	if word == "-maxdepth" {
		p.plan.maxDepth = int(n)
	} else {
		p.plan.minDepth = int(n)
	}
	return func(*finder, found) (bool, error) { return true, nil }, nil
}

// perm is a mode: exactly these bits, with "-" all of them, with "/" one of them.
func (p *findParser) perm(value string) (test, error) {
	text, how := value, byte(0)
	if value != "" && (value[0] == '-' || value[0] == '/') {
		how, text = value[0], value[1:]
	}
	changes, err := parseMode(text)
	if err != nil {
		return nil, findUsage(fmt.Sprintf("invalid mode '%s'", value))
	}
	want, _ := adjust(0, false, 0, changes)
	return func(_ *finder, e found) (bool, error) {
		switch how {
		case '-':
			return e.n.Mode&want == want, nil
		case '/':
			return want == 0 || e.n.Mode&want != 0, nil
		}
		return e.n.Mode == want, nil
	}, nil
}

func (p *findParser) account(word, value string) (test, error) {
	lookup, what := p.names.UserID, "user"
	if word == "-group" {
		lookup, what = p.names.GroupID, "group"
	}
	id, ok := lookup(value)
	if !ok {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			if what == "user" {
				return nil, findUsage(fmt.Sprintf("'%s' is not the name of a known user", value))
			}
			return nil, findUsage(fmt.Sprintf("'%s' is not the name of an existing group", value))
		}
		id = uint32(n)
	}
	if what == "user" {
		return func(_ *finder, e found) (bool, error) { return e.n.UID == id, nil }, nil
	}
	return func(_ *finder, e found) (bool, error) { return e.n.GID == id, nil }, nil
}

// numbers are primaries with N, +N for more, -N for less.
func (p *findParser) numbers(word, value string) (test, error) {
	text, sign := value, byte(0)
	if value != "" && (value[0] == '+' || value[0] == '-') {
		sign, text = value[0], value[1:]
	}
	unit := int64(1)
	if word == "-size" {
		unit = 512
		if text != "" {
			if u, ok := map[byte]int64{'b': 512, 'c': 1, 'w': 2, 'k': 1 << 10, 'M': 1 << 20,
				'G': 1 << 30}[text[len(text)-1]]; ok {
				unit, text = u, text[:len(text)-1]
			}
		}
	}
	want, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		if word == "-size" {
			return nil, findUsage(fmt.Sprintf("invalid -size type `%s'", value))
		}
		return nil, findUsage(fmt.Sprintf("invalid argument `%s' to `%s'", value, word))
	}
	return func(f *finder, e found) (bool, error) {
		var have int64
		switch word {
		case "-uid":
			have = int64(e.n.UID)
		case "-gid":
			have = int64(e.n.GID)
		case "-links":
			have = int64(f.linkCount(e.n))
		case "-size":
			have = (size(e.n) + unit - 1) / unit
		}
		switch sign {
		case '+':
			return have > int64(want), nil
		case '-':
			return have < int64(want), nil
		}
		return have == int64(want), nil
	}, nil
}

// exec is a command up to ";", or up to "+" behind "{}".
func (p *findParser) exec() (test, error) {
	for i, arg := range p.args {
		switch {
		case arg == ";":
			command := p.args[:i]
			p.args = p.args[i+1:]
			if len(command) == 0 {
				return nil, findUsage("invalid argument `;' to `-exec'")
			}
			return func(f *finder, e found) (bool, error) { return f.run(command, e) }, nil
		case arg == "+" && i > 0 && p.args[i-1] == "{}":
			command := p.args[:i-1]
			p.args = p.args[i+1:]
			if len(command) == 0 || strings.Contains(strings.Join(command, " "), "{}") {
				return nil, findUsage("only one instance of {} is supported with -exec ... +")
			}
			b := &batch{command: command}
			p.plan.batches = append(p.plan.batches, b)
			return func(f *finder, e found) (bool, error) { return true, f.collect(b, e.name) }, nil
		}
	}
	return nil, findUsage("missing argument to `-exec'")
}
