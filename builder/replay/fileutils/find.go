package fileutils

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// errQuit ends a walk for -quit.
var errQuit = errors.New("quit")

type finder struct {
	*job
	plan *findPlan
	// links is set when symbolic links are followed everywhere, operandLinks when among the operands.
	links, operandLinks bool
	pruned              bool
}

// A batch collects the files of one -exec … {} +.
type batch struct {
	command []string
	names   []string
	length  int
}

func find(j *job) error {
	f := &finder{job: j}
	args := j.Args
options:
	for ; len(args) > 0; args = args[1:] {
		switch args[0] {
		case "-P":
			f.links, f.operandLinks = false, false
		case "-L":
			f.links, f.operandLinks = true, true
		case "-H":
			f.links, f.operandLinks = false, true
		default:
			break options
		}
	}
	var operands []string
	for len(args) > 0 && !isExpression(args[0]) {
		operands, args = append(operands, args[0]), args[1:]
	}
	if len(operands) == 0 {
		operands = []string{"."}
	}
	plan, err := j.parseFind(args)
	var usage findUsage
	var unknown findUnknown
	switch {
	case errors.As(err, &usage):
		return j.stop(1, "%s", usage)
	case errors.As(err, &unknown):
		return j.unknown(string(unknown))
	case err != nil:
		return err
	}
	f.plan = plan
	if plan.follow {
		f.links, f.operandLinks = true, true
	}
	for _, name := range operands {
		if err = f.operand(name); err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, errQuit) {
		return err
	}
	for _, b := range plan.batches {
		if err := f.flush(b); err != nil {
			return err
		}
	}
	return nil
}

// isExpression tells whether an argument begins the expression.
func isExpression(arg string) bool {
	return arg == "(" || arg == "!" || len(arg) > 1 && arg[0] == '-'
}

func (f *finder) operand(name string) error {
	n, err := f.look(name, f.operandLinks)
	if err != nil {
		if f.operandLinks {
			n, err = f.lstat(name)
		}
		if err != nil {
			return f.missingFile(err, name)
		}
	}
	return f.walk(found{name: name, path: f.abs(name), operand: name, n: n}, nil)
}

func (f *finder) missingFile(err error, name string) error {
	if hard(err) {
		return err
	}
	f.fail("'%s': %s", name, reason(err))
	return nil
}

// walk tests a file and goes through a directory. The directories above are known for loops of symbolic links.
func (f *finder) walk(e found, above []*tree.Inode) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	if slices.Contains(above, e.n) && e.n.Type == tree.Dir {
		f.fail("File system loop detected; '%s' is part of the same file system loop", e.name)
		return nil
	}
	if !f.plan.depthFirst {
		f.pruned = false
		if err := f.test(e); err != nil {
			return err
		}
		if f.pruned {
			return nil
		}
	}
	if e.n.Type == tree.Dir && (f.plan.maxDepth < 0 || e.depth < f.plan.maxDepth) {
		if err := f.below(e, above); err != nil {
			return err
		}
	}
	if f.plan.depthFirst {
		return f.test(e)
	}
	return nil
}

func (f *finder) below(e found, above []*tree.Inode) error {
	names, err := f.children(e.path)
	if errors.Is(err, fs.ErrNotExist) && e.depth > 0 {
		return f.missingFile(err, e.name) // an action took it away
	}
	if err != nil {
		return f.missingFile(err, e.name)
	}
	for _, name := range names {
		p := path.Join(e.path, name)
		n, err := f.Files.Lstat(p)
		if err != nil {
			continue
		}
		if f.links && n.Type == tree.Symlink {
			if to, err := f.Files.Stat(p); err == nil {
				n = to
			}
		}
		child := found{name: join(e.name, name), path: p, operand: e.operand, depth: e.depth + 1, n: n}
		if err := f.walk(child, append(slices.Clip(above), e.n)); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) test(e found) error {
	if e.depth < f.plan.minDepth {
		return nil
	}
	_, err := f.plan.test(f, e)
	return err
}

func (f *finder) empty(e found) (bool, error) {
	switch e.n.Type {
	case tree.Regular:
		return e.n.Content.Size() == 0, nil
	case tree.Dir:
		names, err := f.children(e.path)
		return err == nil && len(names) == 0, f.soft(err, "'%s'", e.name)
	}
	return false, nil
}

func (f *finder) delete(e found) (bool, error) {
	if e.name == "." {
		return true, nil
	}
	err := f.Files.Remove(e.path)
	return err == nil, f.soft(err, "cannot delete '%s'", e.name)
}

// run runs a command with the file in the place of each "{}".
func (f *finder) run(command []string, e found) (bool, error) {
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = strings.ReplaceAll(arg, "{}", e.name)
	}
	status, err := f.Run(f.ctx, args, f.Stdin, f.Stdout)
	return status == 0 && err == nil, err
}

func (f *finder) collect(b *batch, name string) error {
	if b.length += len(name) + 1; b.length > maxCommand {
		if err := f.flush(b); err != nil {
			return err
		}
		b.length = len(name) + 1
	}
	b.names = append(b.names, name)
	return nil
}

func (f *finder) flush(b *batch) error {
	if len(b.names) == 0 {
		return nil
	}
	args := append(slices.Clone(b.command), b.names...)
	b.names, b.length = nil, 0
	status, err := f.Run(f.ctx, args, f.Stdin, f.Stdout)
	if status != 0 {
		f.status = 1
	}
	return err
}

// printing fills the directives of -printf in.
func (p *findParser) printing(format string) (test, error) {
	// The escapes of the format are those of printf, and a directive has one letter behind flags and a width.
	text, err := unescape(format)
	if err != nil {
		return nil, findUnknown(err.Error())
	}
	var parts []func(f *finder, e found) string
	directives := findDirectives()
	for text != "" {
		plain, rest, has := strings.Cut(text, "%")
		parts = append(parts, func(*finder, found) string { return plain })
		if text = rest; !has {
			break
		}
		flags := text[:len(text)-len(strings.TrimLeft(text, "-0123456789"))]
		text = text[len(flags):]
		if text == "" || len(flags) > 4 {
			return nil, findUnknown("-printf " + format)
		}
		name := text[:1]
		if name == "T" && len(text) > 1 {
			name = text[:2]
		}
		text = text[len(name):]
		value, ok := directives[name]
		if !ok {
			return nil, findUnknown("-printf %" + name)
		}
		parts = append(parts, func(f *finder, e found) string { return fmt.Sprintf("%"+flags+"s", value(f, e)) })
	}
	return func(f *finder, e found) (bool, error) {
		for _, part := range parts {
			f.print(part(f, e))
		}
		return true, nil
	}, nil
}

// findDirectives are the values of -printf by their letters.
func findDirectives() map[string]func(f *finder, e found) string {
	return map[string]func(f *finder, e found) string{
		"%":  func(*finder, found) string { return "%" },
		"p":  func(_ *finder, e found) string { return e.name },
		"f":  func(_ *finder, e found) string { return base(e.name) },
		"h":  func(_ *finder, e found) string { return head(e.name) },
		"H":  func(_ *finder, e found) string { return e.operand },
		"P":  func(_ *finder, e found) string { return strings.TrimPrefix(strings.TrimPrefix(e.name, e.operand), "/") },
		"d":  func(_ *finder, e found) string { return fmt.Sprint(e.depth) },
		"s":  func(_ *finder, e found) string { return fmt.Sprint(size(e.n)) },
		"m":  func(_ *finder, e found) string { return fmt.Sprintf("%o", e.n.Mode) },
		"M":  func(_ *finder, e found) string { return modeText(e.n) },
		"y":  func(_ *finder, e found) string { return strings.Replace(typeLetter(e.n.Type), "-", "f", 1) },
		"u":  func(f *finder, e found) string { return f.userName(e.n.UID) },
		"g":  func(f *finder, e found) string { return f.groupName(e.n.GID) },
		"U":  func(_ *finder, e found) string { return fmt.Sprint(e.n.UID) },
		"G":  func(_ *finder, e found) string { return fmt.Sprint(e.n.GID) },
		"l":  func(_ *finder, e found) string { return e.n.Target },
		"n":  func(f *finder, e found) string { return fmt.Sprint(f.linkCount(e.n)) },
		"T@": func(_ *finder, e found) string { return fmt.Sprintf("%d.0000000000", e.n.MTime) },
	}
}

// head is the part of a name before its last element.
func head(name string) string {
	i := strings.LastIndexByte(name, '/')
	switch {
	case i < 0:
		return "."
	case i == 0:
		return ""
	}
	return name[:i]
}
