package fileutils

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/tree"
)

// modeLetters begin a mode that looks like an option, such as "-x".
const modeLetters = "rwxXstugoa,+=01234567"

type chmodder struct {
	*job
	recursive, changes, verbose bool
	mode                        []modeChange
	// fixed is the mode of --reference.
	fixed *uint32
	// surprising is set when the mode looked like an option: then bits that the umask kept are told of.
	surprising bool
}

func chmod(j *job) error {
	m := &chmodder{job: j}
	text, operands, err := m.arguments()
	if err != nil {
		return err
	}
	if m.fixed == nil {
		if text == "" {
			if len(operands) == 0 {
				return j.missing(nil)
			}
			text, operands = operands[0], operands[1:]
			if len(operands) == 0 {
				return j.stop(1, "missing operand after '%s'", text)
			}
		}
		if m.mode, err = parseMode(text); err != nil {
			return j.stop(1, "invalid mode: '%s'", text)
		}
	}
	if len(operands) == 0 {
		return j.missing(nil)
	}
	for _, name := range operands {
		if err := m.operand(name); err != nil {
			return err
		}
	}
	return nil
}

// arguments tells options, a mode that looks like one, and operands apart.
func (m *chmodder) arguments() (mode string, operands []string, err error) {
	for i, arg := range m.Args {
		switch {
		case arg == "--":
			return mode, append(operands, m.Args[i+1:]...), nil
		case strings.HasPrefix(arg, "--reference="):
			ref := strings.TrimPrefix(arg, "--reference=")
			n, err := m.stat(ref)
			if err != nil {
				return "", nil, m.stop(1, "failed to get attributes of '%s': %s", ref, reason(err))
			}
			fixed := n.Mode
			m.fixed = &fixed
		case arg == "--recursive":
			m.recursive = true
		case arg == "--changes":
			m.changes = true
		case arg == "--verbose":
			m.verbose = true
		case arg == "--silent" || arg == "--quiet":
			m.quiet = true
		case arg == "--preserve-root" || arg == "--no-preserve-root":
		case strings.HasPrefix(arg, "--"):
			return "", nil, m.unknown(arg)
		case len(arg) > 1 && arg[0] == '-':
			part, err := m.cluster(arg)
			if err != nil {
				return "", nil, err
			}
			if part != "" {
				mode, m.surprising = strings.TrimPrefix(mode+","+part, ","), true
			}
		default:
			operands = append(operands, arg)
		}
	}
	return mode, operands, nil
}

func (m *chmodder) cluster(arg string) (mode string, err error) {
	for i := 1; i < len(arg); i++ {
		switch b := arg[i]; {
		case b == 'R':
			m.recursive = true
		case b == 'c':
			m.changes = true
		case b == 'v':
			m.verbose = true
		case b == 'f':
			m.quiet = true
		case strings.IndexByte(modeLetters, b) >= 0:
			return "-" + arg[i:], nil
		default:
			return "", m.unknown("-" + string(b))
		}
	}
	return "", nil
}

func (m *chmodder) operand(name string) error {
	n, err := m.stat(name)
	if err != nil {
		if m.verbose {
			m.printf("'%s' could not be accessed\n", name)
		}
		if link, err2 := m.lstat(name); err2 == nil && link.Type == tree.Symlink {
			m.fail("cannot operate on dangling symlink '%s'", name)
			return nil
		}
		return m.soft(err, "cannot access '%s'", name)
	}
	return m.walk(name, m.abs(name), n)
}

// walk changes a file and, with -R, all below it. Symbolic links that it meets stay as they are.
func (m *chmodder) walk(name, p string, n *tree.Inode) error {
	if err := m.one(name, p, n); err != nil {
		return err
	}
	if !m.recursive || n.Type != tree.Dir {
		return nil
	}
	names, err := m.children(p)
	if err != nil {
		return m.soft(err, "cannot read directory '%s'", name)
	}
	for _, child := range names {
		cp := path.Join(p, child)
		n, err := m.Files.Lstat(cp)
		if err != nil || n.Type == tree.Symlink {
			continue
		}
		if err := m.walk(join(name, child), cp, n); err != nil {
			return err
		}
	}
	return nil
}

func (m *chmodder) one(name, p string, n *tree.Inode) error {
	old := n.Mode
	mode, naive := old, old
	if m.fixed != nil {
		mode = *m.fixed
		naive = mode
	} else {
		mode, _ = adjust(old, n.Type == tree.Dir, m.Umask, m.mode)
		naive, _ = adjust(old, n.Type == tree.Dir, 0, m.mode)
	}
	if err := m.Files.Change(p, true, func(n *tree.Inode) { n.Mode = mode }); err != nil {
		return m.soft(err, "changing permissions of '%s'", name)
	}
	switch {
	case mode != old && (m.changes || m.verbose):
		m.printf("mode of '%s' changed from %04o (%s) to %04o (%s)\n", name, old, rwx(old), mode, rwx(mode))
	case m.verbose:
		m.printf("mode of '%s' retained as %04o (%s)\n", name, mode, rwx(mode))
	}
	if m.surprising && mode&^naive != 0 {
		m.fail("%s: new permissions are %s, not %s", name, rwx(mode), rwx(naive))
	}
	return nil
}

// rwx is a mode as ls prints it, without the type.
func rwx(mode uint32) string {
	out := []byte("rwxrwxrwx")
	for i := range out {
		if mode>>(8-i)&1 == 0 {
			out[i] = '-'
		}
	}
	for _, special := range []struct {
		bit      uint32
		at       int
		with, no byte
	}{{setuid, 2, 's', 'S'}, {setgid, 5, 's', 'S'}, {sticky, 8, 't', 'T'}} {
		if mode&special.bit == 0 {
			continue
		}
		if out[special.at] == 'x' {
			out[special.at] = special.with
		} else {
			out[special.at] = special.no
		}
	}
	return string(out)
}

// typeLetter is the letter of a type in ls -l.
func typeLetter(t tree.Type) string {
	return map[tree.Type]string{tree.Dir: "d", tree.Regular: "-", tree.Symlink: "l", tree.CharDevice: "c",
		tree.BlockDevice: "b",
		tree.Fifo:        "p"}[t]
}

func modeText(n *tree.Inode) string { return fmt.Sprint(typeLetter(n.Type), rwx(n.Mode)) }
