package recipe

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"spore/builder/tree"
)

//go:embed accounts/table
var accountTable string

// user and group are rows of the account table.
type user struct {
	name, group, gecos, home, shell string
	uid                             uint32
	from                            []string
}

type group struct {
	name    string
	gid     uint32
	members []string
	from    []string
}

// accounts is the table of fixed ids.
type accounts struct {
	users  []user
	groups []group
	uid    map[string]uint32
	gid    map[string]uint32
}

func loadAccounts() (*accounts, error) { return parseAccounts(accountTable) }

// parseAccounts reads the table; its form is in the head of accounts/table.
func parseAccounts(text string) (*accounts, error) {
	a := &accounts{uid: map[string]uint32{}, gid: map[string]uint32{}}
	uids, gids := map[uint32]string{}, map[uint32]string{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("accounts/table:%d: %s", i+1, fmt.Sprintf(format, args...))
		}
		kind, rest, _ := strings.Cut(line, ":")
		f := strings.SplitN(rest, ":", map[string]int{"user": 7, "group": 4}[kind])
		if !(kind == "user" && len(f) == 7) && !(kind == "group" && len(f) == 4) {
			return nil, fail("a row is group:NAME:GID:MEMBERS:FROM or user:NAME:UID:GROUP:GECOS:HOME:SHELL:FROM")
		}
		id, err := strconv.ParseUint(f[1], 10, 32)
		if err != nil || id > 65534 {
			return nil, fail("the id %q is not a number up to 65534", f[1])
		}
		from := strings.Split(f[len(f)-1], ",")
		if kind == "group" {
			if other := gids[uint32(id)]; other != "" {
				return nil, fail("group id %d is that of %s already", id, other)
			}
			if _, dup := a.gid[f[0]]; dup {
				return nil, fail("group %s appears twice", f[0])
			}
			gids[uint32(id)], a.gid[f[0]] = f[0], uint32(id)
			a.groups = append(a.groups, group{name: f[0], gid: uint32(id), members: splitList(f[2]), from: normalFrom(from)})
			continue
		}
		if other := uids[uint32(id)]; other != "" {
			return nil, fail("user id %d is that of %s already", id, other)
		}
		if _, dup := a.uid[f[0]]; dup {
			return nil, fail("user %s appears twice", f[0])
		}
		if _, ok := a.gid[f[2]]; !ok {
			return nil, fail("group %s of user %s has no row above", f[2], f[0])
		}
		uids[uint32(id)], a.uid[f[0]] = f[0], uint32(id)
		a.users = append(a.users, user{name: f[0], uid: uint32(id), group: f[2], gecos: f[3], home: f[4], shell: f[5], from: normalFrom(from)})
	}
	return a, nil
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

// hasPackage reports whether a row is there because of a package's scripts.
func (a *accounts) hasPackage(name string) bool {
	for _, g := range a.groups {
		for _, f := range g.from {
			if f == "deb:"+name {
				return true
			}
		}
	}
	for _, u := range a.users {
		for _, f := range u.from {
			if f == "deb:"+name {
				return true
			}
		}
	}
	return false
}

// freeID is a number of our range that neither a user nor a group has.
func (a *accounts) freeID() uint32 {
	used := map[uint32]bool{}
	for _, u := range a.users {
		used[u.uid] = true
	}
	for _, g := range a.groups {
		used[g.gid] = true
	}
	for id := uint32(700); ; id++ {
		if !used[id] {
			return id
		}
	}
}

// writeAccounts writes passwd, group, shadow and gshadow from the table: what base-passwd, systemd-sysusers and adduser
// would have made. No account has a password.
func writeAccounts(b *build) error {
	declared, err := b.readSysusers()
	if err != nil {
		return err
	}
	if err := b.checkBasePasswd(); err != nil {
		return err
	}
	if err := b.checkOwners(); err != nil {
		return err
	}
	var passwd, shadow, grp, gshadow strings.Builder
	in := map[string]bool{}
	groups := append([]group(nil), b.accounts.groups...)
	sort.Slice(groups, func(i, j int) bool { return groups[i].gid < groups[j].gid })
	for _, g := range groups {
		if !b.wanted(g.from, declared["g "+g.name]) {
			continue
		}
		in[g.name] = true
		members := append([]string(nil), g.members...)
		for _, m := range declaredMembers(declared, g.name) {
			members = appendNew(members, m)
		}
		list := strings.Join(members, ",")
		fmt.Fprintf(&grp, "%s:x:%d:%s\n", g.name, g.gid, list)
		fmt.Fprintf(&gshadow, "%s:!*::%s\n", g.name, list)
	}
	users := append([]user(nil), b.accounts.users...)
	sort.Slice(users, func(i, j int) bool { return users[i].uid < users[j].uid })
	for _, u := range users {
		if !b.wanted(u.from, declared["u "+u.name]) {
			continue
		}
		if !in[u.group] {
			return fmt.Errorf("user %s is in this image and its group %s is not; give both rows of accounts/table the same last field", u.name, u.group)
		}
		fmt.Fprintf(&passwd, "%s:x:%d:%d:%s:%s:%s\n", u.name, u.uid, b.accounts.gid[u.group], u.gecos, u.home, u.shell)
		// No date of the last change: it would be a clock, and without one pam_unix does not age the password.
		fmt.Fprintf(&shadow, "%s:!*:::::::\n", u.name)
	}
	why := "accounts of builder/recipe/accounts/table"
	shadowGroup := b.accounts.gid["shadow"]
	for _, f := range []struct {
		path, text string
		mode, gid  uint32
	}{
		{"/etc/passwd", passwd.String(), 0o644, 0},
		{"/etc/group", grp.String(), 0o644, 0},
		{"/etc/shadow", shadow.String(), 0o640, shadowGroup},
		{"/etc/gshadow", gshadow.String(), 0o640, shadowGroup},
	} {
		n := &tree.Inode{Type: tree.Regular, Mode: f.mode, GID: f.gid, Content: tree.Bytes(f.text)}
		if err := b.add(f.path, n, why); err != nil {
			return err
		}
	}
	return nil
}

// wanted decides by a row's last field whether it is in this image.
func (b *build) wanted(from []string, declared bool) bool {
	for _, f := range from {
		kind, name, _ := strings.Cut(f, ":")
		switch {
		case kind == "base", kind == "sysusers" && declared:
			return true
		case kind == "deb" && b.present[name] != nil:
			return true
		case kind == "program" && b.programs[name]:
			return true
		}
	}
	return false
}

// readSysusers collects what the packages declare in sysusers.d(5): "u NAME", "g NAME", "m USER GROUP". A name or a fixed
// number that the table does not have is an error.
func (b *build) readSysusers() (map[string]bool, error) {
	const dir = "/usr/lib/sysusers.d"
	out := map[string]bool{}
	for _, name := range b.tree.Children(dir) {
		if !strings.HasSuffix(name, ".conf") {
			continue
		}
		file := path.Join(dir, name)
		data, err := b.tree.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := b.accounts.declare(file, string(data), out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// declare reads one file of sysusers.d(5).
func (a *accounts) declare(file, text string, out map[string]bool) error {
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %w", file, i+1, fmt.Errorf(format, args...))
		}
		kind := strings.TrimSuffix(f[0], "!")
		if kind == "r" {
			continue // a range for ids that sysusers would choose; here none are chosen
		}
		if len(f) < 2 {
			return fail("line %q has no name", line)
		}
		id := "-"
		if len(f) > 2 {
			id = f[2]
		}
		switch kind {
		case "u":
			if err := a.checkUser(f[1], id); err != nil {
				return fail("%w", err)
			}
			out["u "+f[1]], out["g "+f[1]] = true, true
		case "g":
			if err := a.checkGroup(f[1], id); err != nil {
				return fail("%w", err)
			}
			out["g "+f[1]] = true
		case "m":
			if _, ok := a.uid[f[1]]; !ok {
				return fail("user %s is not in accounts/table; its next free number is %d", f[1], a.freeID())
			}
			if _, ok := a.gid[id]; !ok {
				return fail("group %s is not in accounts/table; its next free number is %d", id, a.freeID())
			}
			out["g "+id], out["m "+id+" "+f[1]] = true, true
		default:
			return fail("line type %q of sysusers.d is not known", f[0])
		}
	}
	return nil
}

func (a *accounts) checkUser(name, id string) error {
	uid, ok := a.uid[name]
	if !ok {
		return fmt.Errorf("user %s is not in accounts/table; add rows for it, the next free number is %d", name, a.freeID())
	}
	want, _, _ := strings.Cut(id, ":")
	if n, err := strconv.ParseUint(want, 10, 32); err == nil && uint32(n) != uid {
		return fmt.Errorf("user %s is %d in accounts/table, and the package wants %d", name, uid, n)
	}
	return nil
}

func (a *accounts) checkGroup(name, id string) error {
	gid, ok := a.gid[name]
	if !ok {
		return fmt.Errorf("group %s is not in accounts/table; add a row for it, the next free number is %d", name, a.freeID())
	}
	if n, err := strconv.ParseUint(id, 10, 32); err == nil && uint32(n) != gid {
		return fmt.Errorf("group %s is %d in accounts/table, and the package wants %d", name, gid, n)
	}
	return nil
}

func declaredMembers(declared map[string]bool, group string) []string {
	var out []string
	for d := range declared {
		if rest, ok := strings.CutPrefix(d, "m "+group+" "); ok {
			out = append(out, rest)
		}
	}
	slices.Sort(out)
	return out
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// checkBasePasswd compares the table with the master files of base-passwd, so that a new account of Debian is seen.
func (b *build) checkBasePasswd() error {
	if b.present["base-passwd"] == nil {
		return nil
	}
	for _, f := range []struct {
		file string
		ids  map[string]uint32
	}{
		{"/usr/share/base-passwd/passwd.master", b.accounts.uid},
		{"/usr/share/base-passwd/group.master", b.accounts.gid},
	} {
		data, err := b.tree.ReadFile(f.file)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			p := strings.Split(line, ":")
			if len(p) < 3 {
				return fmt.Errorf("%s:%d: %q is not an account", f.file, i+1, line)
			}
			if id, ok := f.ids[p[0]]; !ok || strconv.FormatUint(uint64(id), 10) != p[2] {
				return fmt.Errorf("%s:%d: %s has the id %s in base-passwd, which accounts/table does not give it", f.file, i+1, p[0], p[2])
			}
		}
	}
	return nil
}

// checkOwners refuses files whose owner has no row in the table: they would belong to whoever gets that number one day.
func (b *build) checkOwners() error {
	uids, gids := map[uint32]bool{}, map[uint32]bool{}
	for _, u := range b.accounts.users {
		uids[u.uid] = true
	}
	for _, g := range b.accounts.groups {
		gids[g.gid] = true
	}
	return b.tree.Walk(func(p string, n *tree.Inode) error {
		if !uids[n.UID] || !gids[n.GID] {
			return fmt.Errorf("%s of %s belongs to %d:%d, which accounts/table does not have", p, n.Origin, n.UID, n.GID)
		}
		return nil
	})
}
