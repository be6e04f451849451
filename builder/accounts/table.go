package accounts

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed table
var fixedTable string

// Highest is the highest id, that of nobody.
const Highest = 65534

// Table is the fixed part: users and groups that Spore knows, with ids that are the same in every image.
type Table struct {
	users  []row
	groups []row
	uid    map[string]uint32
	gid    map[string]uint32
	// userOf and groupOf give the names of ids.
	userOf, groupOf map[uint32]string
}

// row is a line of the table. group, gecos, home and shell are those of a user, members that of a group.
type row struct {
	name                      string
	id                        uint32
	group, gecos, home, shell string
	members                   []string
	from                      []string
}

// Fixed returns the table of this program.
func Fixed() (*Table, error) { return ParseTable(fixedTable) }

// ParseTable reads a table; its form is in the head of the file table. Errors name the line.
func ParseTable(text string) (*Table, error) {
	t := &Table{
		uid: map[string]uint32{}, gid: map[string]uint32{},
		userOf: map[uint32]string{}, groupOf: map[uint32]string{},
	}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.addLine(line); err != nil {
			return nil, fmt.Errorf("accounts/table:%d: %w", i+1, err)
		}
	}
	return t, nil
}

func (t *Table) addLine(line string) error {
	kind, rest, _ := strings.Cut(line, ":")
	f := strings.SplitN(rest, ":", map[string]int{"user": 7, "group": 4}[kind])
	if !(kind == "user" && len(f) == 7) && !(kind == "group" && len(f) == 4) {
		return fmt.Errorf("a row is group:NAME:GID:MEMBERS:FROM or user:NAME:UID:GROUP:GECOS:HOME:SHELL:FROM")
	}
	if err := checkName(f[0]); err != nil {
		return err
	}
	n, err := strconv.ParseUint(f[1], 10, 32)
	if err != nil || n > Highest {
		return fmt.Errorf("the id %q is not a number up to %d", f[1], Highest)
	}
	r := row{name: f[0], id: uint32(n), from: normalFrom(strings.Split(f[len(f)-1], ","))}
	if kind == "group" {
		r.members = splitList(f[2])
		return t.addGroup(r)
	}
	r.group, r.gecos, r.home, r.shell = f[2], f[3], f[4], f[5]
	return t.addUser(r)
}

func (t *Table) addGroup(r row) error {
	if other, taken := t.groupOf[r.id]; taken {
		return fmt.Errorf("group id %d is that of %s already", r.id, other)
	}
	if _, twice := t.gid[r.name]; twice {
		return fmt.Errorf("group %s appears twice", r.name)
	}
	t.groupOf[r.id], t.gid[r.name] = r.name, r.id
	t.groups = append(t.groups, r)
	return nil
}

func (t *Table) addUser(r row) error {
	if other, taken := t.userOf[r.id]; taken {
		return fmt.Errorf("user id %d is that of %s already", r.id, other)
	}
	if _, twice := t.uid[r.name]; twice {
		return fmt.Errorf("user %s appears twice", r.name)
	}
	if _, ok := t.gid[r.group]; !ok {
		return fmt.Errorf("group %s of user %s has no row above", r.group, r.name)
	}
	u := User{Name: r.name, Group: r.group, Gecos: r.gecos, Home: r.home, Shell: r.shell}
	if err := u.check(); err != nil {
		return err
	}
	t.userOf[r.id], t.uid[r.name] = r.name, r.id
	t.users = append(t.users, r)
	return nil
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// normalFrom lets "deb:a,b" stand for "deb:a,deb:b".
func normalFrom(from []string) []string {
	out, prefix := make([]string, 0, len(from)), ""
	for _, f := range from {
		switch kind, _, ok := strings.Cut(f, ":"); {
		case ok:
			prefix = kind + ":"
		case f == "base" || f == "sysusers":
			prefix = ""
		default:
			f = prefix + f
		}
		out = append(out, f)
	}
	return out
}

// UserID is the id that the table gives a user.
func (t *Table) UserID(name string) (uint32, bool) { id, ok := t.uid[name]; return id, ok }

// GroupID is the id that the table gives a group.
func (t *Table) GroupID(name string) (uint32, bool) { id, ok := t.gid[name]; return id, ok }

// CheckMaster compares the table with the files passwd.master and group.master of base-passwd, so that a new account
// of Debian is seen. name is what errors call the file.
func (t *Table) CheckMaster(name, text string, groups bool) error {
	ids := t.uid
	if groups {
		ids = t.gid
	}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		p := strings.Split(line, ":")
		if len(p) < 3 {
			return fmt.Errorf("%s:%d: %q is not an account", name, i+1, line)
		}
		if id, ok := ids[p[0]]; !ok || strconv.FormatUint(uint64(id), 10) != p[2] {
			return fmt.Errorf("%s:%d: %s has the id %s in base-passwd, which accounts/table does not give it",
				name, i+1, p[0], p[2])
		}
	}
	return nil
}
