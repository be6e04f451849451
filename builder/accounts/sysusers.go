package accounts

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// SysusersFile is a file of sysusers.d(5).
type SysusersFile struct{ Name, Text string }

// maxSysusersLines bounds the lines of the files of one call.
const maxSysusersLines = 10_000

// Sysusers adds what a file of sysusers.d(5) declares. Users and groups that are there stay as they are. A range (r)
// means nothing here, and an id that is a path is chosen like one that is left open. Errors name file and line.
func (db *DB) Sysusers(file, text string) error {
	return db.SysusersFiles([]SysusersFile{{file, text}})
}

// SysusersFiles is Sysusers for several files: as systemd-sysusers(8) does, all groups come first, then users, then
// members.
func (db *DB) SysusersFiles(files []SysusersFile) error {
	var lines []sysusersLine
	for _, f := range files {
		for i, text := range strings.Split(f.Text, "\n") {
			l, err := parseSysusers(text)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", f.Name, i+1, err)
			}
			if l.kind == 0 {
				continue
			}
			l.place = fmt.Sprintf("%s:%d", f.Name, i+1)
			if lines = append(lines, l); len(lines) > maxSysusersLines {
				return fmt.Errorf("%s: more than %d lines of sysusers.d", l.place, maxSysusersLines)
			}
		}
	}
	for _, step := range []struct {
		kind  byte
		apply func(sysusersLine) error
	}{{'g', db.sysGroup}, {'u', db.sysUser}, {'m', db.sysMember}} {
		for _, l := range lines {
			if l.kind != step.kind {
				continue
			}
			if err := step.apply(l); err != nil {
				return fmt.Errorf("%s: %w", l.place, err)
			}
		}
	}
	return nil
}

// sysusersLine is one line; kind is 0 for an empty one.
type sysusersLine struct {
	place                        string
	kind                         byte
	name, id, gecos, home, shell string
}

func parseSysusers(text string) (sysusersLine, error) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' {
		return sysusersLine{}, nil
	}
	f, err := sysusersFields(text)
	if err != nil {
		return sysusersLine{}, err
	}
	kind := strings.TrimSuffix(f[0], "!")
	if len(kind) != 1 || !strings.Contains("ugmr", kind) || kind != f[0] && kind != "u" {
		return sysusersLine{}, fmt.Errorf("line type %q of sysusers.d is not known", f[0])
	}
	if kind == "r" {
		return sysusersLine{}, nil // a range for ids that systemd-sysusers would choose
	}
	if len(f) < 2 || f[1] == "" || f[1] == "-" {
		return sysusersLine{}, fmt.Errorf("line %.200q has no name", text)
	}
	most := map[string]int{"u": 6, "g": 3, "m": 3}[kind]
	for i := 2; i < len(f); i++ {
		if f[i] == "-" {
			f[i] = ""
		}
		if i >= most && f[i] != "" {
			return sysusersLine{}, fmt.Errorf("a line of type %s has no field %q", kind, f[i])
		}
	}
	f = append(f, make([]string, 6)...)
	return sysusersLine{kind: kind[0], name: f[1], id: f[2], gecos: f[3], home: f[4], shell: f[5]}, nil
}

// sysusersFields splits a line at white space outside of quotes and expands %%, the one specifier that is the same on
// each machine. A backslash takes the next character as it is.
func sysusersFields(text string) ([]string, error) {
	var out []string
	var field strings.Builder
	var quote rune
	in, escaped, percent := false, false, false
	for _, c := range text {
		switch {
		case escaped:
			field.WriteRune(c)
			escaped = false
		case percent && c != '%':
			return nil, fmt.Errorf("the specifier %%%c of sysusers.d has no value in a build", c)
		case c == '%':
			if percent {
				field.WriteByte('%')
			}
			in, percent = true, !percent
		case c == '\\':
			in, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			field.WriteRune(c)
		case c == '"' || c == '\'':
			in, quote = true, c
		case c == ' ' || c == '\t' || c == '\r':
			if in {
				out = append(out, field.String())
				field.Reset()
			}
			in = false
		default:
			in = true
			field.WriteRune(c)
		}
	}
	if quote != 0 || escaped || percent {
		return nil, errors.New("the line ends within a quote, escape or specifier")
	}
	if in {
		out = append(out, field.String())
	}
	return out, nil
}

func (db *DB) sysGroup(l sysusersLine) error {
	g := Group{Name: l.name}
	var err error
	if g.ID, g.HasID, err = sysusersID(l.id); err != nil {
		return err
	}
	if have, ok := db.Group(l.name); ok {
		return sameID("group", l.name, have.ID, g.ID, g.HasID)
	}
	return db.AddGroup(g)
}

func (db *DB) sysUser(l sysusersLine) error {
	u := User{Name: l.name, Gecos: l.gecos, Home: l.home, Shell: l.shell}
	if u.Home == "" {
		u.Home = "/"
	}
	id, group, hasGroup := l.id, "", false
	if !path.IsAbs(id) {
		id, group, hasGroup = strings.Cut(l.id, ":")
	}
	var err error
	if u.ID, u.HasID, err = sysusersID(id); err != nil {
		return err
	}
	if have, ok := db.User(l.name); ok {
		return sameID("user", l.name, have.ID, u.ID, u.HasID)
	}
	if hasGroup {
		if u.Group, err = db.groupByNameOrID(group); err != nil {
			return err
		}
	} else if u.HasID && db.groups[l.name] == nil { // "u NAME 65" makes the group with this number too
		if err := db.AddGroup(Group{Name: l.name, ID: u.ID, HasID: true}); err != nil {
			return err
		}
	}
	return db.AddUser(u)
}

func (db *DB) groupByNameOrID(s string) (string, error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		s = db.GroupName(uint32(n))
	}
	return s, db.hasGroup(s)
}

func (db *DB) sysMember(l sysusersLine) error {
	if l.id == "" {
		return fmt.Errorf("the line of %s has no group", l.name)
	}
	for _, missing := range []struct {
		is  bool
		add func() error
	}{
		{db.users[l.name] == nil, func() error { return db.AddUser(User{Name: l.name, Home: "/"}) }},
		{db.groups[l.id] == nil, func() error { return db.AddGroup(Group{Name: l.id}) }},
	} {
		if missing.is {
			if err := missing.add(); err != nil {
				return err
			}
		}
	}
	return db.AddMember(l.name, l.id)
}

// sysusersID reads the field of an id.
func sysusersID(s string) (id uint32, has bool, err error) {
	if s == "" || s == "-" || path.IsAbs(s) {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > Highest {
		return 0, false, fmt.Errorf("the id %.60q is not a number up to %d", s, Highest)
	}
	return uint32(n), true, nil
}

// sameID refuses another number than that of an account that is there.
func sameID(kind, name string, have, want uint32, wanted bool) error {
	if wanted && Global(want) && have != want {
		return fmt.Errorf("%s %s is %d in this image, and the package wants %d", kind, name, have, want)
	}
	return nil
}
